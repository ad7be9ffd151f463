"""Base class of the API's views: strict bodies and query parameters, ETags (If-Match), pagination."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import viewer
from controlplane.api.pagination import Pages
from controlplane.api.permissions import RoleView
from controlplane.models import ApiToken, request_origin
from controlplane.publishing.group_publishing import group_publisher
from controlplane.services.errors import FieldError, Invalid, PreconditionFailed
from routing.contract.field_rules import did_you_mean, found

_ANY_ETAG = re.compile(r'(W/)?"[^"]*"')
_OUR_ETAG = re.compile(r'"([0-9]{1,18})"')


class ApiView(RoleView):
    query_parameters: ClassVar[tuple[str, ...]] = ()
    """Those that reading takes; another is an error, never ignored."""
    write_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Method → those that it takes."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Audit entries made meanwhile say where they come from, and errors name the fleets that may be seen,
        as soon as it is known who asks."""
        writing = nullcontext() if request.method in SAFE_METHODS else group_publisher.writing()
        with request_origin.origin_scope(request_origin.SESSION), viewer.viewer_scope(), writing:
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if isinstance(request.auth, ApiToken):
            request_origin.set_origin(request_origin.token(request.auth.prefix))
        method = request.method or ""
        known = self.query_parameters if method in SAFE_METHODS else self.write_parameters.get(method, ())
        _refuse_unknown(request.query_params, known)

    def perform_authentication(self, request: Request) -> None:
        """Every request counts towards its limit, also one that is refused for want of a login."""
        try:
            super().perform_authentication(request)
        finally:
            super().check_throttles(request)

    def check_throttles(self, request: Request) -> None:
        """The framework asks after permissions, which strangers never have: it has been done before."""

    def paged(
        self, request: Request, rows: QuerySet[Any], represent: Callable[[Iterable[Any]], list[Any]]
    ) -> Response:
        """One page of rows. ``represent`` gets a whole page, so that it can ask once for what it needs."""
        pages = Pages()
        page = pages.paginate_queryset(rows, request, view=self)
        return pages.get_paginated_response(represent(page if page is not None else []))


def _refuse_unknown(given: Iterable[str], known: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        listed = f"; known parameters: {', '.join(known)}" if known else "; this address takes none"
        hint = did_you_mean(unknown[0], known) or listed
        raise exceptions.ParseError(f'There is no query parameter "{unknown[0]}"{hint}')


def body_of(request: Request) -> Mapping[str, Any]:
    """The body, which must be a JSON object."""
    data = request.data
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise Invalid([FieldError("", f"The body must be a JSON object, not {found(data)}.")])
    return data


def expected_version(request: Request) -> int | None:
    """The version in If-Match. None: there is no such header, or it says that any will do."""
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return None
    if not _ANY_ETAG.fullmatch(header.strip()):
        raise exceptions.ParseError(
            'If-Match must be one ETag in quotes, as the API returned it, for example "7".'
        )
    match = _OUR_ETAG.fullmatch(header.strip())
    if match is None:
        raise PreconditionFailed(f"{header.strip()} is not an ETag of this API.")
    return int(match.group(1))


def confirmation(request: Request) -> str:
    """What ``?confirm=`` says: a token, or the name of what is to go. Empty: nothing was said."""
    return str(request.query_params.get("confirm", ""))


def versioned(data: Any, version: int, status: int = 200) -> Response:
    """An answer with its ETag."""
    return Response(data, status=status, headers={"ETag": f'"{version}"'})
