"""API tokens. Only a keyed hash is stored; the token itself is shown once.

A token carries the rights of its user, as they are at each request, or fewer: those of its role and labels.
Over the API everybody makes and revokes their own, whatever their role, and nobody makes one for somebody
else. A token makes none with more rights than its own, or with a later expiry. One with a role below
*administer* makes none at all, so that if it leaks, revoking it is enough. A token revokes only tokens that
have no more rights than its own.

An ordinary token ends with its user's password (:func:`end_of_password`), one of a service does not.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.access.grants import Access, access_of
from controlplane.access.roles import Role
from controlplane.datastores import database_away, disk_full
from controlplane.datastores.brief_wait import brief_wait
from controlplane.models import ApiToken, ForcedPasswordChange
from controlplane.services import token_rules
from controlplane.services.errors import FieldError, Forbidden, NotFound
from controlplane.services.token_rules import TokenSettings
from controlplane.services.unit_of_work import unit_of_work

PREFIX = "sy_"
SHOWN_CHARACTERS = 9
USED_RESOLUTION = timedelta(minutes=1)
"""``last_used_at`` is written at most this often."""


def key_hash(token: str, secret: str = "") -> str:
    """HMAC-SHA256 keyed with the installation's secret: a stolen database gives no usable token. ``secret``:
    a former one."""
    return hmac.new((secret or settings.SECRET_KEY).encode(), token.encode(), hashlib.sha256).hexdigest()


def create_own(
    user: User, access: Access, given: Mapping[str, Any], maker: ApiToken | None
) -> tuple[ApiToken, str]:
    """As :func:`create`, from what the API was sent. ``access``: what the request may; ``maker``: the token
    that it came with. Raises Invalid, Forbidden."""
    if maker is not None and Role.named(maker.role) != Role.ADMINISTER:
        raise Forbidden(
            f"This token is limited to {maker.role}, and makes no others: make it on the page API tokens, or "
            "with a token that has no role of its own."
        )
    wanted = token_rules.checked(given, timezone.now())
    if maker is not None:
        wanted = token_rules.within(wanted, maker)
    if "role" in given and wanted.role > (access.anywhere or 0):
        words = f"Your role is {access.text()}: a token has none above it. Choose a lower one, or none."
        raise Forbidden(words, [FieldError("/role", words)])
    if wanted.service and access.everywhere != Role.ADMINISTER:
        words = f"Your role is {access.text()}: tokens of services need administer for all fleets."
        raise Forbidden(words, [FieldError("/service", words)])
    return create(user, wanted, user.get_username())


def create(user: User, wanted: TokenSettings | str, actor: str) -> tuple[ApiToken, str]:
    """Returns the row and the token in clear, which cannot be read again. ``wanted``: a name alone for a
    token that may all that its user may."""
    if isinstance(wanted, str):
        wanted = TokenSettings(wanted)
    token = PREFIX + secrets.token_urlsafe(32)
    with unit_of_work(actor) as write:
        row = ApiToken.objects.create(
            user=user,
            name=wanted.name,
            prefix=token[:SHOWN_CHARACTERS],
            key_hash=key_hash(token),
            role=wanted.role.word,
            selector=dict(wanted.selector or {}),
            expires_at=wanted.expires_at,
            service=wanted.service,
        )
        write.audit("tokens.create", _target(row), after={"prefix": row.prefix, **wanted.described()})
    return row, token


def access_with(user: User | AnonymousUser, token: ApiToken | None) -> Access:
    """What a request may: what its user may, and of that only what its token may."""
    access = access_of(user)
    return access if token is None else access.limited(Role.named(token.role), token.selector)


def seen_by(user: User, access: Access) -> QuerySet[ApiToken]:
    """Who administers all fleets sees everybody's tokens, so that one that leaked can be revoked at once;
    others see their own. ``access``: what the request may."""
    rows = ApiToken.objects.select_related("user").order_by("-created_at", "-pk")
    return rows if access.everywhere == Role.ADMINISTER else rows.filter(user=user)


def revoke(pk: int, user: User, access: Access, revoker: ApiToken | None) -> None:
    """The token is deleted. ``revoker``: the token that asks for it. Raises Forbidden, NotFound, also where
    ``user`` does not see it."""
    with unit_of_work(user.get_username()) as write:
        row = seen_by(user, access).filter(pk=pk).first()
        if row is None:
            raise NotFound(f"There is no API token with the id {pk}: GET /api/v1/tokens lists all.")
        if revoker is not None and not token_rules.covers(revoker, row):
            raise Forbidden(
                f"The token {row.name} may more than the one that would revoke it: revoke it on the page API "
                "tokens."
            )
        write.audit("tokens.revoke", _target(row), {"prefix": row.prefix})
        row.delete()


def end_of_password(user: User, actor: str) -> int:
    """The user has another password: ordinary tokens are deleted. Returns how many.

    No token is deleted when a user replaces a one-time password with their first own one. So tokens that were
    made for an account before its owner signed in stay.
    """
    with unit_of_work(actor) as write:
        if ForcedPasswordChange.objects.filter(user_id=user.pk).exists():
            return 0
        rows = list(ApiToken.objects.select_related("user").filter(user_id=user.pk, service=False))
        for row in rows:
            write.audit("tokens.revoke", _target(row), {"prefix": row.prefix, "ended_by": "new password"})
            row.delete()
        return len(rows)


def verify(token: str) -> ApiToken | None:
    """The token's row with its user, or None when unknown, expired, or its user is disabled."""
    rows = ApiToken.objects.select_related("user").filter(user__is_active=True)
    row = rows.filter(key_hash=key_hash(token)).first() or _under_a_former_secret(rows, token)
    if row is None or (row.expires_at is not None and row.expires_at <= timezone.now()):
        return None
    _touch(row)
    return row


def _under_a_former_secret(rows: QuerySet[ApiToken], token: str) -> ApiToken | None:
    """A token whose hash is keyed with a former secret is hashed anew: that secret is needed no longer."""
    for secret in settings.SECRET_KEY_FALLBACKS:
        row = rows.filter(key_hash=key_hash(token, secret)).first()
        if row is not None:
            same = ApiToken.objects.filter(pk=row.pk, key_hash=row.key_hash)
            _write_if_possible(partial(same.update, key_hash=key_hash(token)))
            return row
    return None


def _target(row: ApiToken) -> str:
    return f"{row.user.get_username()}/{row.name}"[:200]


def _touch(row: ApiToken) -> None:
    """Of requests at the same moment, one writes. On a full disk, or while another write goes on, none does;
    the token opens all the same."""
    now = timezone.now()
    if row.last_used_at is None or now - row.last_used_at > USED_RESOLUTION:
        same = ApiToken.objects.filter(pk=row.pk, last_used_at=row.last_used_at)
        if _write_if_possible(partial(same.update, last_used_at=now)):
            row.last_used_at = now


def _write_if_possible(write: Callable[[], int]) -> int:
    """What ``write`` answers; 0 on a full disk, and while the database is busy with another write."""
    try:
        with brief_wait():
            return write()
    except DatabaseError as error:
        if disk_full.sentence(error) is None and database_away.sentence(error) is None:
            raise
        return 0
