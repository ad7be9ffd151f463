"""Token authentication: ``Authorization: Token …`` for API clients.

Browsers use session authentication, which is REST framework's own, with its CSRF check.
"""

from typing import Any

from rest_framework import authentication, exceptions
from rest_framework.request import Request

from controlplane.services import guess_limits, tokens

KEYWORD = "Token"


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Token sy_…`` (``manage.py createtoken`` prints one)."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        parts = authentication.get_authorization_header(request).split()
        if not parts or parts[0].lower() != KEYWORD.lower().encode():
            return None
        if len(parts) != 2:
            raise exceptions.AuthenticationFailed(f"Write it as: Authorization: {KEYWORD} sy_…")
        token = tokens.verify(parts[1].decode("latin-1"))
        if token is None:
            _count_wrong(request)
            raise exceptions.AuthenticationFailed(
                "This token is unknown, has expired or was ended, or its user is disabled."
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return f'{KEYWORD} realm="switchyard"'


def _count_wrong(request: Request) -> None:
    """Raises Throttled where there were too many."""
    try:
        guess_limits.wrong_token(request.META.get("REMOTE_ADDR", ""))
    except guess_limits.TooManyGuesses as error:
        raise exceptions.Throttled(error.wait_s, str(error)) from None
