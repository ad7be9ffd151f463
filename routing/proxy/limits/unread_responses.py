"""Unread responses (slow read): the memory of one worker for what clients do not take.

Theory. Of each response at most one piece waits for its client. Then nothing more is read from the
replica. A piece is what one read brings, up to 256 kB. All together may hold ``most`` bytes. While more
than half of that is held, the replicas of slow readers are read in small pieces
(:mod:`routing.http.small_reads`), so that sixteen times as many slow readers have room. When more than
``most`` is held, slow readers are disconnected. :mod:`routing.proxy.limits.held_bytes` chooses them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic

from routing.http.interfaces import Connection
from routing.proxy.limits.connection_limit import REFUSAL
from routing.proxy.limits.held_bytes import HeldBytes

PART = 3
"""The limit is this fraction of the memory for request bodies, in addition to that memory."""
LEAST_BYTES = 16 << 20
CUT = "unread_response"
"""The reason, as it is counted."""


class UnreadResponses:
    """Those of one worker."""

    __slots__ = ("_cutting", "_held", "_loop", "_weight", "acts")

    def __init__(self, loop: asyncio.AbstractEventLoop, weight: Callable[[Connection], int]) -> None:
        """``weight``: how many connections the address of one has."""
        self._loop = loop
        self._weight = weight
        self._held = HeldBytes(LEAST_BYTES)
        self._cutting = False
        self.acts: Counter[str] = Counter()
        """How often a client was cut off."""

    def set(self, body_memory: int) -> None:
        """Set the limit. ``body_memory``: bytes that request bodies may take."""
        self._held.most = max(LEAST_BYTES, body_memory // PART)

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return self._held.held

    @property
    def are_many(self) -> bool:
        """Whether further ones are to be kept small."""
        return 2 * self._held.held > self._held.most

    def put(self, client: Connection, size: int, since: float) -> None:
        """So many bytes wait for the client, which has made no progress since then; 0: none."""
        if not size:
            self._held.end(client)
            return
        self._held.put(client, size, since)
        if self._held.are_too_many and not self._cutting:
            self._cutting = True
            # This may be in the middle of a write.
            self._loop.call_soon(self._cut)

    def end(self, client: Connection) -> None:
        """It is closed."""
        self._held.end(client)

    def _cut(self) -> None:
        self._cutting = False
        while self._held.are_too_many:
            client = self._held.oldest(monotonic(), self._weight)
            if client is None:
                return
            self._held.end(client)
            self.acts[CUT] += 1
            client.give_way(REFUSAL)
