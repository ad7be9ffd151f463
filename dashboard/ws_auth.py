"""WebSocket authentication: same origin (Origin check), and a session that is signed in."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.contrib.sessions.backends.base import SessionBase

from controlplane.access.grants import NOTHING, Access, access_of
from controlplane.models import Fleet, ForcedPasswordChange
from controlplane.web.session_user import session_user


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the page that opens the socket came from the host that it opens it to.

    Browsers let any site open a WebSocket anywhere and send the cookies along; ``Origin`` is what
    tells them apart (RFC 6455, 10.2). Only the host is compared: behind TLS termination the scheme
    of the page is not the one seen here. A client without ``Origin`` is no browser page: refused.
    """
    try:
        origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
    except ValueError:  # not a URL: an open bracket
        return False
    host = headers.get(b"host", b"").decode("latin-1")
    return bool(origin.netloc) and origin.netloc.lower() == host.lower()


async def access(session: SessionBase) -> Access:
    """What whoever is signed in, with a password of one's own, may see; nothing: nobody is.

    Reads session and roles anew: both may have been changed since the socket was opened.
    """
    read: Access = await database_sync_to_async(_access)(session.__class__(session.session_key))
    return read


def _access(session: SessionBase) -> Access:
    user = session_user(session)
    if not user.is_authenticated or ForcedPasswordChange.objects.filter(user_id=user.pk).exists():
        return NOTHING
    return access_of(user)


async def fleets_seen(access: Access) -> frozenset[str] | None:
    """Names of the fleets that may be seen; None: all."""
    names: frozenset[str] | None = await database_sync_to_async(access.fleet_names)()
    return names


async def fleet_seen(access: Access, name: str) -> bool:
    """Whether there is this fleet, for whoever has this access."""
    seen: bool = await database_sync_to_async(_fleet_seen)(access, name)
    return seen


def _fleet_seen(access: Access, name: str) -> bool:
    return Fleet.objects.filter(access.rows("name"), name=name).exists()
