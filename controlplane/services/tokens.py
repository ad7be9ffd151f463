"""API tokens. Only a keyed hash is stored; the token itself is shown once."""

import hashlib
import hmac
import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from controlplane.models import ApiToken, AuditEntry

PREFIX = "sy_"
SHOWN_CHARACTERS = 9
USED_RESOLUTION = timedelta(minutes=1)
"""``last_used_at`` is written at most this often."""


def key_hash(token: str) -> str:
    """HMAC-SHA256 keyed with the installation's secret: a stolen database gives no usable token."""
    return hmac.new(settings.SECRET_KEY.encode(), token.encode(), hashlib.sha256).hexdigest()


def create(user: User, name: str, actor: str) -> tuple[ApiToken, str]:
    """Returns the row and the token in clear, which cannot be read again."""
    token = PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiToken.objects.create(
            user=user, name=name, prefix=token[:SHOWN_CHARACTERS], key_hash=key_hash(token)
        )
        AuditEntry.objects.create(
            actor=actor,
            verb="tokens.create",
            target=f"{user.get_username()}/{name}",
            after={"prefix": row.prefix},
        )
    return row, token


def verify(token: str) -> ApiToken | None:
    """The token's row with its user, or None when unknown or the user is disabled."""
    row = (
        ApiToken.objects.select_related("user").filter(key_hash=key_hash(token), user__is_active=True).first()
    )
    if row is not None:
        _touch(row)
    return row


def _touch(row: ApiToken) -> None:
    now = timezone.now()
    if row.last_used_at is None or now - row.last_used_at > USED_RESOLUTION:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
