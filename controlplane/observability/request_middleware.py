"""Each request of the web process: its id, its line in the access log, its place in the metrics."""

import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from controlplane.observability import metrics
from routing.contract.log_format import REQUEST_ID

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
VALID_ID = re.compile(r"[A-Za-z0-9._~:/+=@-]{1,128}")
NO_ROUTE = "(none)"

access = logging.getLogger("switchyard.access")


class RequestMiddleware:
    """First of all, so that whatever else happens to a request is seen."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request_id = id_of(request)
        began = time.monotonic()
        token = REQUEST_ID.set(request_id)
        metrics.WEB_IN_FLIGHT.inc()
        try:
            response = self.get_response(request)
            response["X-Request-Id"] = request_id
            self._note(request, response, time.monotonic() - began)
            return response
        finally:
            metrics.WEB_IN_FLIGHT.dec()
            REQUEST_ID.reset(token)

    def _note(self, request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
        route = route_of(request)
        method = request.method if request.method in METHODS else "OTHER"
        metrics.WEB_REQUESTS.labels(route, method, f"{response.status_code // 100}xx").inc()
        metrics.WEB_DURATION.labels(route).observe(seconds)
        if access.isEnabledFor(logging.INFO):
            fields = {
                "method": method,
                "route": route,
                "status": response.status_code,
                "ms": round(seconds * 1000, 1),
                "user": user_of(request),
                "client": request.META.get("REMOTE_ADDR") or "",
            }
            access.info("%s %s %d", method, route, response.status_code, extra={"fields": fields})


def id_of(request: HttpRequest) -> str:
    """The client's own, where it can stand in a header and in a log line; else a new one."""
    given = request.headers.get("X-Request-Id", "")
    return given if VALID_ID.fullmatch(given) else secrets.token_hex(12)


def route_of(request: HttpRequest) -> str:
    """The pattern of the URL tables, never the path: that one may hold anything."""
    match = request.resolver_match
    return NO_ROUTE if match is None else f"/{match.route}"


def user_of(request: HttpRequest) -> str:
    """Who it was, where something asked: the API token by its prefix, else the user's name; else nothing."""
    token: Any = getattr(request, "auth", None)
    if prefix := getattr(token, "prefix", ""):
        return f"token {prefix}"
    # Not request.user: reading that would ask the session, and the database, for the log's sake.
    user: Any = request.__dict__.get("_cached_user")
    return user.get_username() if user is not None and user.is_authenticated else ""
