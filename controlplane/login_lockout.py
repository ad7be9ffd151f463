"""What someone sees who has tried too many passwords."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from controlplane.api.errors import problem


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: object) -> HttpResponse:
    """Called by django-axes in place of the login page."""
    wait_s = int(settings.AXES_COOLOFF_TIME * 3600)
    text = f"Too many failed logins. Wait {wait_s // 60} minutes and try again."
    if "application/json" in request.headers.get("Accept", ""):
        answer: HttpResponse = problem(429, text)
    else:
        answer = HttpResponse(text + "\n", status=429, content_type="text/plain; charset=utf-8")
    answer["Retry-After"] = str(wait_s)
    return answer
