"""Sticky registry: which replica stores a response; of one worker, with a lookup at others."""

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
        """From now on share learned ids with others, and ask them for unknown ones.

        ``find`` must have a time limit of its own.
        """
        self._share = share
        self._find = find

    def learn(self, name: str, place: ReplicaRef) -> None:
        if self._ids.learn(name, place, monotonic()) and self._share is not None:
            self._share(name, place)

    def find(self, name: str) -> ReplicaRef | None:
        """Who keeps it, by what is known here."""
        return self._ids.find(name, monotonic())

    def ask(self, name: str) -> asyncio.Task[ReplicaRef | None] | None:
        """Ask the others; ``None``: there are none."""
        if self._find is None or len(name) > MAX_ID_CHARS:
            return None
        return asyncio.get_running_loop().create_task(self._asked(name))

    async def _asked(self, name: str) -> ReplicaRef | None:
        assert self._find is not None
        try:
            place = await self._find(name)
        except Exception:
            # A mistake of ours; the client is to get an answer nevertheless.
            log.exception("the sticky lookup failed for %r", name)
            return None
        if place is not None:
            self._ids.learn(name, place, monotonic())
        return place
