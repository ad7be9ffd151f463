"""Every error as ``application/problem+json`` (RFC 9457), with a pointer to each wrong field."""

import sys
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.datastores import database_away, disk_full
from controlplane.services.confirmation import NeedsConfirmation
from controlplane.services.errors import FieldError, ServiceError

RETRY_AFTER_S = "10"
CONTENT_TYPE = "application/problem+json"
# Named, not imported: the control plane never imports the dashboard.
PAGE = "dashboard/problem.html"


def body(status: int, detail: str, errors: Iterable[FieldError] = ()) -> dict[str, Any]:
    """The members of a problem. ``type`` is ``about:blank``: the status says which kind it is."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [{"pointer": error.pointer, "detail": error.detail} for error in errors],
    }


def problem(status: int, detail: str, errors: Iterable[FieldError] = ()) -> HttpResponse:
    return HttpResponse(orjson.dumps(body(status, detail, errors)), status=status, content_type=CONTENT_TYPE)


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """REST framework's exception handler. None: not an answer of ours, so Django's 500 handler answers."""
    if isinstance(error, NeedsConfirmation):
        words = f"{error.detail} To do it all the same, repeat the request with ?confirm={error.token}"
        response = _response(error.status, words, (), {})
        response.data = {**response.data, "confirm": error.token}
        return response
    if isinstance(error, ServiceError):
        return _response(error.status, error.detail, error.errors, {})
    if (unavailable := _unavailable(error)) is not None:
        return _response(503, unavailable, (), {"Retry-After": RETRY_AFTER_S})
    if isinstance(error, Http404):
        error = exceptions.NotFound(str(error) or None)
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    if not isinstance(error, exceptions.APIException):
        return None
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    if isinstance(error, exceptions.ValidationError):
        fields = list(field_errors(error.detail))
        return _response(error.status_code, summary(fields), fields, headers)
    return _response(error.status_code, _with_cure(error, context), (), headers)


def _unavailable(error: BaseException | None) -> str | None:
    """Why the database cannot do it now, in a sentence."""
    return disk_full.sentence(error) or database_away.sentence(error)


def _with_cure(error: exceptions.APIException, context: Mapping[str, Any]) -> str:
    """What the framework says, and what to do instead where it leaves that out."""
    view, request = context.get("view"), context.get("request")
    if isinstance(error, exceptions.MethodNotAllowed) and view is not None and request is not None:
        allowed = ", ".join(method for method in view.allowed_methods if method not in ("HEAD", "OPTIONS"))
        return f"{request.method} is not allowed at {request.path}; allowed: {allowed}."
    if isinstance(error, exceptions.UnsupportedMediaType) and request is not None:
        sent = request.content_type or "nothing"
        return f"The Content-Type is {sent[:60]}: send JSON, with Content-Type: application/json."
    if isinstance(error, exceptions.NotAcceptable):
        return "Responses are JSON only: send Accept: application/json, or no Accept header."
    if isinstance(error, exceptions.NotAuthenticated) and request is not None:
        scheme = request.headers.get("Authorization", "").partition(" ")[0]
        start = f'The Authorization scheme "{scheme[:20]}" is not supported. ' if scheme else ""
        return (
            f"{start}Send a token, Authorization: Token sy_… (.venv/bin/switchyard createtoken USER NAME "
            "prints one), or log in."
        )
    return str(error.detail)


def _response(status: int, detail: str, errors: Iterable[FieldError], headers: Mapping[str, str]) -> Response:
    set_rollback()
    return Response(body(status, detail, errors), status=status, headers=headers, content_type=CONTENT_TYPE)


def summary(fields: list[FieldError]) -> str:
    if len(fields) == 1:
        return fields[0].words
    return f"{len(fields)} fields are wrong."


def field_errors(detail: Any, pointer: str = "") -> Iterable[FieldError]:
    """Flattens a serializer's nested errors into JSON pointers (RFC 6901)."""
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            part = "" if key == "non_field_errors" else f"/{escape(str(key))}"
            yield from field_errors(inner, pointer + part)
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, Mapping | list)
            yield from field_errors(inner, f"{pointer}/{index}" if nested else pointer)
    elif detail:
        yield FieldError(pointer, str(detail))


def escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


# --- What Django itself answers, outside REST views ---


def _html_wanted(request: HttpRequest) -> bool:
    return not request.path.startswith("/api/") and "text/html" in request.headers.get("Accept", "")


def page_or_problem(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    """A page for a browser, a problem for everything else. Needs neither database nor session."""
    if not _html_wanted(request):
        return problem(status, detail)
    page = render_to_string(PAGE, {"title": HTTPStatus(status).phrase.capitalize(), "detail": detail})
    return HttpResponse(page, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return page_or_problem(request, 400, "The request is malformed.")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return page_or_problem(request, 403, str(exception) or "You do not have permission to do this.")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return page_or_problem(request, 404, f"There is nothing at {request.path}.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Called while the exception is being handled."""
    unavailable = _unavailable(sys.exc_info()[1])
    if unavailable is None:
        return page_or_problem(request, 500, "Internal error. The server's log has the details.")
    response = page_or_problem(request, 503, unavailable)
    response["Retry-After"] = RETRY_AFTER_S
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return page_or_problem(request, 403, f"{reason or 'CSRF check failed.'} Reload the page and try again.")
