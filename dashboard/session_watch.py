"""Session watch (request coalescing): what open WebSockets may see, read once a second for all that ask.

All pages of one browser have the same session, so its roles are read once for all of its sockets. Which
fleets there are, with which labels, is read once for all sockets of the process. A reading is shared by those
that ask within :data:`FRESH_S`. A logout, a new password, a disabled account, another role or label, or a
fleet that is deleted is seen by the next reading.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.contrib.sessions.backends.base import SessionBase

from controlplane.access.grants import Access, labels_of_fleets
from dashboard import ws_auth

FRESH_S = 0.9
"""A reading is shared for so long; less than the time between two checks of a socket."""


class _SharedRead(NamedTuple):
    began: float
    task: asyncio.Task[Any]


_readings: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _SharedRead]] = WeakKeyDictionary()


async def access(session: SessionBase) -> Access:
    """As :func:`dashboard.ws_auth.access`. Raises django.db.Error, to each that has waited for it."""
    found: Access = await _shared(f"session {session.session_key}", lambda: ws_auth.access(session))
    return found


async def fleets_seen(access: Access) -> frozenset[str] | None:
    """As :func:`dashboard.ws_auth.fleets_seen`. Raises django.db.Error."""
    return None if access.everywhere is not None else access.among(await _fleets())


async def fleet_seen(access: Access, name: str) -> bool:
    """As :func:`dashboard.ws_auth.fleet_seen`. Raises django.db.Error."""
    labels = (await _fleets()).get(name)
    return labels is not None and access.of_labels(labels) is not None


async def _fleets() -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = await _shared("fleets", database_sync_to_async(labels_of_fleets))
    return found


async def _shared(key: str, read: Callable[[], Awaitable[Any]]) -> Any:
    """What ``read`` answers, perhaps for somebody else a moment ago."""
    loop = asyncio.get_running_loop()
    readings = _readings.setdefault(loop, {})
    now = loop.time()
    known = readings.get(key)
    if known is None or now - known.began >= FRESH_S:
        for old in [name for name, one in readings.items() if now - one.began >= FRESH_S and one.task.done()]:
            del readings[old]
        known = readings[key] = _SharedRead(now, loop.create_task(_result(read)))
    # One socket that is closed meanwhile does not cancel the reading of the others.
    return await asyncio.shield(known.task)


async def _result(read: Callable[[], Awaitable[Any]]) -> Any:
    return await read()
