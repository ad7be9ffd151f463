"""Signing secrets of webhooks. They are derived from SWITCHYARD_SECRET_KEY and never stored, so that neither
the database nor a backup holds one; each is shown once, when it is made."""

import base64
import hashlib
import hmac

from django.conf import settings

from controlplane.models import AlertDestination


def secret_shown_once(row: AlertDestination) -> str:
    """As libraries of Standard Webhooks take it: ``whsec_`` and base64."""
    return f"whsec_{base64.b64encode(_derived(settings.SECRET_KEY, row)).decode()}"


def keys_of(row: AlertDestination) -> list[bytes]:
    """In force, the newest first: a former secret key's too while it is named in the settings, so that
    receivers go on to accept messages through the overlap."""
    return [_derived(key, row) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def _derived(key: str, row: AlertDestination) -> bytes:
    """One for each destination and each time that a new one was asked for."""
    purpose = f"switchyard alert destination {row.uid} {row.secret_version}"
    return hmac.new(key.encode(), purpose.encode(), hashlib.sha256).digest()
