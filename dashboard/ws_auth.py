"""WebSocket authentication: same origin (Origin check), and a session that is signed in."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.contrib.sessions.backends.base import SessionBase

from controlplane.models import Fleet, ForcedPasswordChange
from controlplane.web.session_user import session_user


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the page that opens the socket came from the host that it opens it to.

    Browsers let any site open a WebSocket anywhere and send the cookies along; ``Origin`` is what
    tells them apart (RFC 6455, 10.2). Only the host is compared: behind TLS termination the scheme
    of the page is not the one seen here. A client without ``Origin`` is no browser page: refused.
    """
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
    host = headers.get(b"host", b"").decode("latin-1")
    return bool(origin.netloc) and origin.netloc.lower() == host.lower()


async def signed_in(session: SessionBase) -> bool:
    """With a password of one's own. Reads the session anew: it may have been ended since the socket was
    opened."""
    known: bool = await database_sync_to_async(_has_user)(session.__class__(session.session_key))
    return known


def _has_user(session: SessionBase) -> bool:
    user = session_user(session)
    return user.is_authenticated and not ForcedPasswordChange.objects.filter(user_id=user.pk).exists()


async def fleet_exists(name: str) -> bool:
    exists: bool = await database_sync_to_async(Fleet.objects.filter(name=name).exists)()
    return exists
