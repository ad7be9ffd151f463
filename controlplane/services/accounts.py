"""The first administrator, other accounts, and passwords of one's own."""

import secrets

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from controlplane.models import ForcedPasswordChange
from controlplane.services.errors import Conflict, FieldError, Invalid
from controlplane.services.unit_of_work import unit_of_work

ALPHABET = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Without characters that are mistaken for one another."""
PASSWORD_LENGTH = 20


def ensure_administrator(name: str, actor: str) -> str | None:
    """Makes the administrator when there is none; answers the one-time password, or None.

    The password must be replaced at the first login, because a terminal's log has seen it.
    """
    with unit_of_work(actor) as write:
        users = get_user_model().objects
        if users.filter(is_superuser=True).exists():
            return None
        password = _one_time_password()
        user: User = users.create_superuser(name, password=password)
        ForcedPasswordChange.objects.create(user=user)
        write.audit("accounts.create", name, after={"superuser": True})
        return password


def create(name: str, actor: str, *, may_change: bool = False) -> str:
    """An account with read-only access, or with write access; answers the one-time password, as above.

    Raises Invalid, Conflict.
    """
    with unit_of_work(actor) as write:
        password = _one_time_password()
        user = User(username=User.normalize_username(name), is_staff=may_change)
        user.set_password(password)
        try:
            user.clean_fields(exclude=["password"])
        except ValidationError as error:
            raise Invalid([FieldError("/name", " ".join(error.messages))]) from error
        if User.objects.filter(username__iexact=user.username).exists():
            raise Conflict(f"There is an account {user.username} already: choose another name.")
        user.save()
        ForcedPasswordChange.objects.create(user=user)
        write.audit("accounts.create", user.username, after={"superuser": False, "may_change": may_change})
        return password


def _one_time_password() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(PASSWORD_LENGTH))


def own_password_chosen(user: User) -> None:
    """The user has replaced the one-time password."""
    with unit_of_work(user.get_username()) as write:
        ForcedPasswordChange.objects.filter(user=user).delete()
        write.audit("accounts.change_password", user.get_username())
