"""Sticky registry (session persistence): which replica stores a response, known here or looked up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from routing.shared.sticky_ids import MAX_ID_CHARS, ReplicaRef, StickyIds

log = logging.getLogger(__name__)

Share = Callable[[str, ReplicaRef], None]
Find = Callable[[str], Awaitable[ReplicaRef | None]]


class StickyRegistry:
    """Replicas of responses and conversations, by id."""

    def __init__(self) -> None:
        self._ids = StickyIds()
        self._share: Share | None = None
        self._find: Find | None = None

    def join(self, share: Share, find: Find) -> None:
        """From now on send learned ids to ``share``, and look up unknown ones with ``find``.

        ``find`` must have a time limit of its own.
        """
        self._share = share
        self._find = find

    def learn(self, name: str, replica_ref: ReplicaRef) -> None:
        if self._ids.learn(name, replica_ref, monotonic()) and self._share is not None:
            self._share(name, replica_ref)

    def correct(self, name: str, replica_ref: ReplicaRef) -> None:
        """Others have heard of this replica before."""
        self._ids.correct(name, replica_ref)

    def find(self, name: str) -> ReplicaRef | None:
        """The replica that stores it, if this worker knows it."""
        return self._ids.find(name, monotonic())

    def ask(self, name: str) -> asyncio.Task[ReplicaRef | None] | None:
        """Begin a lookup elsewhere; ``None``: there is nowhere to look."""
        if self._find is None or len(name) > MAX_ID_CHARS:
            return None
        return asyncio.get_running_loop().create_task(self._asked(name))

    async def _asked(self, name: str) -> ReplicaRef | None:
        assert self._find is not None
        try:
            replica_ref = await self._find(name)
        except Exception:
            # A bug: the client must get a response all the same.
            log.exception("the sticky lookup failed for %r", name)
            return None
        if replica_ref is not None:
            self._ids.learn(name, replica_ref, monotonic())
        return replica_ref
