"""The first administrator, and passwords of one's own."""

import secrets

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from controlplane.models import ForcedPasswordChange
from controlplane.services.writing import writing

ALPHABET = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Without characters that are mistaken for one another."""
PASSWORD_LENGTH = 20


def ensure_administrator(name: str, actor: str) -> str | None:
    """Makes the administrator when there is none; answers the one-time password, or None.

    The password must be replaced at the first login, because a terminal's log has seen it.
    """
    with writing(actor) as write:
        users = get_user_model().objects
        if users.filter(is_superuser=True).exists():
            return None
        password = "".join(secrets.choice(ALPHABET) for _ in range(PASSWORD_LENGTH))
        user: User = users.create_superuser(name, password=password)
        ForcedPasswordChange.objects.create(user=user)
        write.audit("accounts.create", name, after={"superuser": True})
        return password


def own_password_chosen(user: User) -> None:
    """The user has replaced the password: nobody else has seen this one."""
    with writing(user.get_username()) as write:
        ForcedPasswordChange.objects.filter(user=user).delete()
        write.audit("accounts.change_password", user.get_username())
