"""Known devices: a signed cookie that says that an account has signed in with this browser before.

It opens nothing. It gives the browser's guesses a limit of their own, so that nobody elsewhere can lock an
account's owner out (:mod:`controlplane.services.guess_limits`). It ends with the password of its time, and
outlives a replaced secret key for as long as the former one is named.
"""

import hashlib
import secrets
from collections.abc import Iterator
from itertools import chain

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.http import HttpRequest, HttpResponse

MAX_AGE_S = 365 * 24 * 3600
_SALT = "switchyard.known-device"


def device_of(request: HttpRequest, account: str) -> str:
    """The id of the browser, if it is known for this account; else empty."""
    value = request.COOKIES.get(_cookie(account))
    if not value:
        return ""
    try:
        device, password = signing.loads(value, salt=_SALT, max_age=MAX_AGE_S)
    except (signing.BadSignature, ValueError):
        return ""
    user = User.objects.filter(username=User.normalize_username(account), is_active=True).first()
    if user is None or password not in _password_marks(user, device):
        return ""
    return str(device)


def remember(response: HttpResponse, user: User, device: str = "") -> None:
    """From now on this browser is known for the account. ``device``: as which it is already."""
    device = device or secrets.token_hex(16)
    response.set_cookie(
        _cookie(user.get_username()),
        signing.dumps([device, next(_password_marks(user, device))], salt=_SALT),
        max_age=MAX_AGE_S,
        path="/login",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _cookie(account: str) -> str:
    """One for each account, so that several may share a browser."""
    return "device_" + hashlib.sha256(User.normalize_username(account).encode()).hexdigest()[:16]


def _password_marks(user: User, device: str) -> Iterator[str]:
    """Of the user's password: under the present secret key, then under former ones."""
    for password in chain([user.get_session_auth_hash()], user.get_session_auth_fallback_hash()):
        yield hashlib.sha256(f"{device}{password}".encode()).hexdigest()[:32]
