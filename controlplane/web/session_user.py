"""Session authentication outside of Django's middleware: whose a session is."""

from django.contrib import auth
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest


def session_user(session: SessionBase) -> User | AnonymousUser:
    """Anonymous, if the session or the account has ended, or the password has changed since. Reads both."""
    request = HttpRequest()
    request.session = session
    return auth.get_user(request)
