"""The first administrator, other accounts, and passwords of one's own."""

import secrets
from collections.abc import Sequence

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from controlplane.access.grants import READ_ALL, Access, Grant, access_of, stored
from controlplane.access.roles import Role
from controlplane.models import ForcedPasswordChange, RoleGrant
from controlplane.services.errors import Conflict, FieldError, Invalid, NotFound
from controlplane.services.unit_of_work import unit_of_work
from controlplane.services.validation import unknown_name

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


def create(name: str, actor: str, grants: Sequence[Grant] = (READ_ALL,)) -> str:
    """An account with these roles; answers the one-time password, as above. Raises Invalid, Conflict."""
    with unit_of_work(actor) as write:
        password = _one_time_password()
        user = User(username=User.normalize_username(name))
        user.set_password(password)
        try:
            user.clean_fields(exclude=["password"])
        except ValidationError as error:
            raise Invalid([FieldError("/name", " ".join(error.messages))]) from error
        if User.objects.filter(username__iexact=user.username).exists():
            raise Conflict(f"There is an account {user.username} already: choose another name.")
        _put_roles(user, grants)
        ForcedPasswordChange.objects.create(user=user)
        after = {"superuser": False, "roles": [grant.text() for grant in grants]}
        write.audit("accounts.create", user.username, after=after)
        return password


def set_roles(name: str, grants: Sequence[Grant], actor: str) -> Access:
    """Replaces all roles of the account, from its next request on; answers what it had.

    Raises NotFound, Conflict (the account may always do everything).
    """
    with unit_of_work(actor) as write:
        user = User.objects.select_for_update().filter(username=name).first()
        if user is None:
            known = User.objects.values_list("username", flat=True)
            raise NotFound(f"T{unknown_name('account', name, known)[1:]}")
        if user.is_superuser:
            raise Conflict(f"{name} is a superuser, who may always do everything.")
        before = access_of(user)
        _put_roles(user, grants)
        after = Access(tuple(grants))
        if before != after:
            write.audit("accounts.set_roles", name, {"roles": before.text()}, {"roles": after.text()})
        return before


def _put_roles(user: User, grants: Sequence[Grant]) -> None:
    """``is_staff`` says what Django's own parts ask: whether the account may change everything."""
    user.is_staff = Access(tuple(grants)).everywhere == Role.ADMINISTER
    user.save()
    RoleGrant.objects.filter(user=user).delete()
    RoleGrant.objects.bulk_create(stored(grants, user))


def _one_time_password() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(PASSWORD_LENGTH))


def change_own_password(user: User) -> None:
    """Saves the password that was set on ``user``, who has chosen it; ends ordinary tokens unless it replaces
    a one-time password. All of it, or nothing."""
    with unit_of_work(user.get_username()) as write:
        # Ends the tokens: see controlplane.services.password_tokens.
        user.save(update_fields=["password"])
        ForcedPasswordChange.objects.filter(user=user).delete()
        write.audit("accounts.change_password", user.get_username())
