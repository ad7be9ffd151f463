"""Token revocation: ends a user's API tokens with the password, whoever sets it (page, command, shell).

Django asks the password validators of the settings to take note of each password that was saved. A hash that
is renewed at a login, with another hasher, is no new password and not told.
"""

import sys

from django.contrib.auth.models import User

from controlplane.services import tokens
from controlplane.services.local_actor import local_actor


class EndTokens:
    """For ``AUTH_PASSWORD_VALIDATORS``."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Every password will do."""

    def password_changed(self, password: str, user: User | None = None) -> None:
        """A verb that sets one (the page, ``createaccount``) has its own actor. Without one it is set on this
        machine: by ``changepassword``, or in a shell."""
        if user is not None and user.pk is not None:
            command = sys.argv[1] if len(sys.argv) > 1 else "shell"
            tokens.end_of_password(user, local_actor(command))

    def get_help_text(self) -> str:
        return ""
