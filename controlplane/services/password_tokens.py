"""Token revocation: ends a user's API tokens with the password, whoever sets it (page, command, shell).

Django asks the password validators of the settings to take note of each password that was saved. A hash that
is renewed at a login, with another hasher, is no new password and not told.
"""

from django.contrib.auth.models import User

from controlplane.services import tokens


class EndTokens:
    """For ``AUTH_PASSWORD_VALIDATORS``."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Every password will do."""

    def password_changed(self, password: str, user: User | None = None) -> None:
        if user is not None and user.pk is not None:
            tokens.end_of_password(user, user.get_username())

    def get_help_text(self) -> str:
        return ""
