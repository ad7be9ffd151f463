"""Login lockout: what someone sees who has tried too many passwords."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from controlplane.api.errors import page_or_problem


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: object) -> HttpResponse:
    """Called by django-axes in place of the login page."""
    wait_s = int(settings.AXES_COOLOFF_TIME * 3600)
    text = f"Too many failed logins. Wait {wait_s // 60} minutes and try again."
    answer = page_or_problem(request, 429, text)
    answer["Retry-After"] = str(wait_s)
    return answer
