"""Session watch: what the sessions of open WebSockets may see, read once a second for each session.

All pages of one browser have the same session, so a reading is shared by all sockets of a session that ask
within :data:`FRESH_S`. A logout, a new password, a disabled account or another role is seen by
the next reading.
"""

import asyncio
from typing import NamedTuple
from weakref import WeakKeyDictionary

from django.contrib.sessions.backends.base import SessionBase

from controlplane.access.grants import Access
from dashboard import ws_auth

FRESH_S = 0.9
"""A reading is shared for so long; less than the time between two checks of a socket."""


class _Reading(NamedTuple):
    began: float
    task: asyncio.Task[Access]


_readings: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Reading]] = WeakKeyDictionary()


async def access(session: SessionBase) -> Access:
    """As :func:`dashboard.ws_auth.access`, perhaps read for another socket of this session a moment ago.

    Raises django.db.Error, to each that has waited for the reading.
    """
    loop = asyncio.get_running_loop()
    readings, key = _readings.setdefault(loop, {}), session.session_key or ""
    now = loop.time()
    known = readings.get(key)
    if known is None or now - known.began >= FRESH_S:
        for old in [name for name, one in readings.items() if now - one.began >= FRESH_S and one.task.done()]:
            del readings[old]
        known = readings[key] = _Reading(now, loop.create_task(_read(session)))
    # One socket that is closed meanwhile does not cancel the reading of the others.
    return await asyncio.shield(known.task)


async def _read(session: SessionBase) -> Access:
    return await ws_auth.access(session)
