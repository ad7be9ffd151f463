"""Sticky ids in Redis, for the proxies of other hosts: one key for each id, with an expiry, the newest only.

They are written in the background, and only while Redis can be reached. The only effect of a lost id is that
other hosts do not know it.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from routing.contract import redis_keys
from routing.contract.decode_errors import DECODE_ERRORS
from routing.shared.sticky_ids import STICKY_TTL_S, ReplicaRef
from routing.worker.config.subscriber import REDIS_ERRORS

FIND_LIMIT_S = 0.05
MOST_WAITING = 10_000
"""Limit of ids that wait to be written; further ones are dropped."""

BATCH = 250
"""Ids of one script, which Redis works on for a millisecond or two."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ReplicaRef).decode


class RedisStickyStore:
    """Implements :class:`routing.worker.config.sticky_lookup.StickyStore`."""

    def __init__(self, client: Any, connected: Callable[[], bool]) -> None:
        self._client = client
        self._connected = connected
        self.on_stored_before: Callable[[str, ReplicaRef], None] | None = None
        """Called with each id that was not stored because another replica stores it, and with that one."""
        self._waiting: dict[str, ReplicaRef] = {}
        self._writing: asyncio.Task[None] | None = None

    def keep(self, name: str, replica_ref: ReplicaRef) -> None:
        if len(self._waiting) >= MOST_WAITING or not self._connected():
            return
        self._waiting[name] = replica_ref
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def find(self, name: str) -> ReplicaRef | None:
        if not self._connected():
            return None
        try:
            async with asyncio.timeout(FIND_LIMIT_S):
                stored = await self._client.get(redis_keys.sticky_key(name))
            return None if stored is None else _decode(stored)
        except (*REDIS_ERRORS, TimeoutError, *DECODE_ERRORS):
            return None

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = list(self._waiting.items()), {}
            try:
                for first in range(0, len(waiting), BATCH):
                    await self._store(waiting[first : first + BATCH])
            except (*REDIS_ERRORS, *DECODE_ERRORS):
                self._waiting.clear()

    async def _store(self, batch: list[tuple[str, ReplicaRef]]) -> None:
        arguments = [part for name, replica_ref in batch for part in (name, _encode(replica_ref))]
        bounds = (round(STICKY_TTL_S), redis_keys.MOST_STICKY_IDS)
        before = await self._client.eval(
            redis_keys.KEEP_STICKY_IDS, 1, redis_keys.STICKY_IDS, *bounds, *arguments
        )
        if self.on_stored_before is not None:
            for name, stored in zip(before[::2], before[1::2], strict=True):
                self.on_stored_before(name.decode(), _decode(stored))
