"""ASGI lifespan: the web process begins and ends by the server's messages, so that imports have no effect."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured

from controlplane.datastores import sqlite_log
from controlplane.observability import metrics_listener, process_heartbeats, watchdog
from controlplane.observability.process import this_process
from controlplane.publishing import redis_owner

LOOP_HEARTBEAT_S = 1.0


async def _turn() -> None:
    while True:
        this_process.loop_heartbeat.record()
        await asyncio.sleep(LOOP_HEARTBEAT_S)


async def lifespan(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """ASGI's lifespan protocol. A listener that cannot be opened stops the start, with its words."""
    await receive()
    try:
        metrics_listener.start()
    except ImproperlyConfigured as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    await sync_to_async(redis_owner.watch)()
    process_heartbeats.start()
    watchdog.start()
    await sync_to_async(sqlite_log.hold_open)()
    this_process.ready.set()
    await send({"type": "lifespan.startup.complete"})
    turning = asyncio.create_task(_turn())
    await receive()
    turning.cancel()
    await send({"type": "lifespan.shutdown.complete"})
