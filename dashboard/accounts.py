"""Signing in, and choosing a password of one's own."""

from typing import Any

from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.http import HttpResponse
from django.urls import reverse_lazy

from controlplane.models import ForcedPasswordChange, request_origin
from controlplane.services import accounts

PASSWORD_FIELDS = (
    ("old_password", "Current password", "current-password"),
    ("new_password1", "New password", "new-password"),
    ("new_password2", "New password again", "new-password"),
)
"""Form field, its label, and what a browser's password manager should put there."""


class Login(LoginView):
    template_name = "dashboard/login.html"
    redirect_authenticated_user = True


class ChangePassword(PasswordChangeView):
    """Also where :mod:`controlplane.web.password_change` sends a browser with a one-time password."""

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

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        response = super().form_valid(form)
        with request_origin.origin_scope(request_origin.SESSION):
            accounts.own_password_chosen(form.user)
        return response
