"""Authentication before a large body is read: whether a request's API token or session is valid."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module

from channels.db import database_sync_to_async
from django.conf import settings

from controlplane.api.authentication import KEYWORD
from controlplane.asgi_types import Scope
from controlplane.services import guess_limits, tokens
from controlplane.web.refusals import Refusal, Refused
from controlplane.web.session_user import session_user


async def has_credential(scope: Scope) -> bool:
    """Asks the database only where there is something to ask about. Raises Refused after too many guesses."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    scheme, _, token = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() == KEYWORD.lower():
        address: str = (scope.get("client") or ("",))[0]
        return bool(await database_sync_to_async(_is_token)(token.strip(), address))
    key = _session_key(headers.get(b"cookie", ""))
    return bool(key) and await database_sync_to_async(_is_signed_in)(key)


def _is_token(token: str, address: str) -> bool:
    if tokens.verify(token) is not None:
        return True
    try:
        guess_limits.wrong_token(address)
    except guess_limits.TooManyGuesses as error:
        raise Refused(Refusal(429, str(error), {"Retry-After": str(error.wait_s)})) from None
    return False


def _session_key(cookies: str) -> str:
    try:
        found = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _is_signed_in(session_key: str) -> bool:
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    return session_user(session).is_authenticated
