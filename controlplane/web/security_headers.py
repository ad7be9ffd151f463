"""Security headers: the content security policy and its companions, on every response.

``Cache-Control: no-store`` too, where nothing else is said: everything but static files is about somebody's
fleets, and is not for the disk of a browser or a proxy. ETags are not touched: they are for ``If-Match``.
"""

from collections.abc import Callable

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


def content_security_policy(host: str, *, secure: bool) -> str:
    """Everything from this origin only. ``host`` names its WebSockets, which older browsers
    do not count as ``'self'``; ``data:`` images are the icons inside vendored style sheets."""
    sockets = f"{'wss' if secure else 'ws'}://{host}"
    return "; ".join(
        (
            "default-src 'self'",
            f"connect-src 'self' {sockets}",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )


class SecurityHeadersMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Content-Security-Policy"] = content_security_policy(
            _host(request), secure=request.is_secure()
        )
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


def _host(request: HttpRequest) -> str:
    """The host as asked for, or nothing usable when it is not one of ours."""
    try:
        return request.get_host()
    except DisallowedHost:
        return "127.0.0.1"
