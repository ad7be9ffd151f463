"""API tokens. Only a keyed hash is stored; the token itself is shown once.

A token carries the rights of its user, as they are at each request, and over the API nobody makes one for
somebody else: so no token can be made that may more than whoever makes it.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.datastores import disk_full
from controlplane.models import ApiToken
from controlplane.services.client_keys import label
from controlplane.services.errors import NotFound
from controlplane.services.unit_of_work import unit_of_work
from controlplane.services.validation import accepted
from routing.contract.field_rules import Problems, Section, Text

PREFIX = "sy_"
SHOWN_CHARACTERS = 9
USED_RESOLUTION = timedelta(minutes=1)
"""``last_used_at`` is written at most this often."""

TOKEN = Section(
    words="A token for the REST API.",
    what="an API token",
    fields={"name": Text(words="What it is for.", what="name", check=label, required='"laptop"')},
)


def key_hash(token: str) -> str:
    """HMAC-SHA256 keyed with the installation's secret: a stolen database gives no usable token."""
    return hmac.new(settings.SECRET_KEY.encode(), token.encode(), hashlib.sha256).hexdigest()


def create_own(user: User, given: Mapping[str, Any]) -> tuple[ApiToken, str]:
    """As :func:`create`, from what the API was sent. Raises Invalid."""
    problems: Problems = []
    kept = TOKEN.read_fields(given, "", problems)
    return create(user, accepted((kept, problems))["name"], user.get_username())


def create(user: User, name: str, actor: str) -> tuple[ApiToken, str]:
    """Returns the row and the token in clear, which cannot be read again."""
    token = PREFIX + secrets.token_urlsafe(32)
    with unit_of_work(actor) as write:
        row = ApiToken.objects.create(
            user=user, name=name, prefix=token[:SHOWN_CHARACTERS], key_hash=key_hash(token)
        )
        write.audit("tokens.create", _target(row), after={"prefix": row.prefix})
    return row, token


def seen_by(user: User) -> QuerySet[ApiToken]:
    """Staff see everybody's tokens, so that one that leaked can be revoked at once; others their own."""
    rows = ApiToken.objects.select_related("user").order_by("-created_at", "-pk")
    return rows if user.is_staff else rows.filter(user=user)


def revoke(pk: int, user: User) -> None:
    """The token is deleted. Raises NotFound, also where ``user`` does not see it."""
    with unit_of_work(user.get_username()) as write:
        row = seen_by(user).filter(pk=pk).first()
        if row is None:
            raise NotFound(f"There is no API token with the id {pk}: GET /api/v1/tokens lists all.")
        write.audit("tokens.revoke", _target(row), {"prefix": row.prefix})
        row.delete()


def verify(token: str) -> ApiToken | None:
    """The token's row with its user, or None when unknown or the user is disabled."""
    row = (
        ApiToken.objects.select_related("user").filter(key_hash=key_hash(token), user__is_active=True).first()
    )
    if row is not None:
        _touch(row)
    return row


def _target(row: ApiToken) -> str:
    return f"{row.user.get_username()}/{row.name}"[:200]


def _touch(row: ApiToken) -> None:
    """Of requests at the same moment, one writes. On a full disk none does; the token opens all the same."""
    now = timezone.now()
    if row.last_used_at is None or now - row.last_used_at > USED_RESOLUTION:
        same = ApiToken.objects.filter(pk=row.pk, last_used_at=row.last_used_at)
        try:
            if same.update(last_used_at=now):
                row.last_used_at = now
        except DatabaseError as error:
            if disk_full.sentence(error) is None:
                raise
