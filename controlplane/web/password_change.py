"""Middleware that keeps a browser on ``/password`` until a one-time password has been replaced."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from controlplane.api.errors import problem
from controlplane.models import ForcedPasswordChange

PASSWORD_PATH = "/password"
ALWAYS_OPEN = ("/login", "/logout", PASSWORD_PATH, "/livez", "/readyz", "/static/")


class PasswordChangeMiddleware:
    """Concerns sessions only: API tokens are made by people who have shell access already."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(ALWAYS_OPEN) or not request.user.is_authenticated:
            return self.get_response(request)
        if not ForcedPasswordChange.objects.filter(user_id=request.user.pk).exists():
            return self.get_response(request)
        if "text/html" in request.headers.get("Accept", ""):
            return HttpResponseRedirect(PASSWORD_PATH)
        return problem(403, f"Choose your own password at {PASSWORD_PATH} first.")
