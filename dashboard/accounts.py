"""Login and password change: the two pages, both with limits of wrong passwords (brute force)."""

from typing import Any, cast

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse_lazy

from controlplane.api.errors import page_or_problem
from controlplane.models import ForcedPasswordChange, request_origin
from controlplane.services import accounts, guess_limits
from controlplane.services.guess_limits import TooManyGuesses
from controlplane.web import known_devices

PASSWORD_FIELDS = (
    ("old_password", "Current password", "current-password"),
    ("new_password1", "New password", "new-password"),
    ("new_password2", "New password again", "new-password"),
)
"""Form field, its label, and what a browser's password manager should put there."""


METHODS = ["get", "head", "post", "options"]
"""Django's views of forms would take PUT as well."""


class Login(LoginView):
    http_method_names = METHODS
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Refused before the password is looked at, where too many were wrong."""
        name = User.normalize_username(request.POST.get("username", "").strip())
        if not (name and request.POST.get("password")):
            return super().post(request, *args, **kwargs)
        self.device = known_devices.device_of(request, name)
        try:
            attempt = guess_limits.login(name, request.META.get("REMOTE_ADDR", ""), self.device)
        except TooManyGuesses as refused:
            return _refused(request, refused)
        try:
            response = super().post(request, *args, **kwargs)
        except DatabaseError:
            attempt.was_none()  # no password was compared
            raise
        if request.user.is_authenticated:
            attempt.was_none()
        return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        known_devices.remember(response, form.get_user(), self.device)
        return response


class ChangePassword(PasswordChangeView):
    """Also where :mod:`controlplane.web.password_change` sends a browser with a one-time password."""

    http_method_names = METHODS
    template_name = "dashboard/password.html"
    success_url = reverse_lazy("overview")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(forced=self._forced(), **kwargs)
        form = context["form"]
        context["fields"] = [(form[name], label, hint) for name, label, hint in PASSWORD_FIELDS]
        return context

    def _forced(self) -> bool:
        username = self.request.user.get_username()
        return ForcedPasswordChange.objects.filter(user__username=username).exists()

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Whoever finds an open session cannot try passwords with it for ever."""
        try:
            self.attempt = guess_limits.present_password(
                cast(User, request.user).pk, request.session.session_key or ""
            )
        except TooManyGuesses as refused:
            return _refused(request, refused)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        self.attempt.was_none()
        form.save(commit=False)  # hashes it, which takes long, before anything is locked
        with request_origin.origin_scope(request_origin.SESSION):
            accounts.change_own_password(form.user)
        update_session_auth_hash(self.request, form.user)
        response = HttpResponseRedirect(self.get_success_url())
        known_devices.remember(response, form.user)
        return response

    def form_invalid(self, form: PasswordChangeForm) -> HttpResponse:
        if "old_password" not in form.errors:
            self.attempt.was_none()  # only the new one was refused
        return super().form_invalid(form)


def _refused(request: HttpRequest, refused: TooManyGuesses) -> HttpResponse:
    answer = page_or_problem(request, 429, str(refused))
    answer["Retry-After"] = str(refused.wait_s)
    return answer
