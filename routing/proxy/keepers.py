"""Which replica keeps what, as one worker knows it, and others whom it can ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic

from routing.replica_state.kept_ids import LONGEST_ID, KeptIds, Place

log = logging.getLogger(__name__)

Share = Callable[[str, Place], None]
Find = Callable[[str], Awaitable[Place | None]]


class Keepers:
    """Of responses and conversations, by their ids."""

    def __init__(self) -> None:
        self._ids = KeptIds()
        self._share: Share | None = None
        self._find: Find | None = None

    def join(self, share: Share, find: Find) -> None:
        """From now on tell others what is learned here, and ask them for what is not.

        ``find`` must come to an end soon by itself.
        """
        self._share = share
        self._find = find

    def learn(self, name: str, place: Place) -> None:
        if self._ids.learn(name, place, monotonic()) and self._share is not None:
            self._share(name, place)

    def find(self, name: str) -> Place | None:
        """Who keeps it, by what is known here."""
        return self._ids.find(name, monotonic())

    def ask(self, name: str) -> asyncio.Task[Place | None] | None:
        """Ask the others; ``None``: there are none."""
        if self._find is None or len(name) > LONGEST_ID:
            return None
        return asyncio.get_running_loop().create_task(self._asked(name))

    async def _asked(self, name: str) -> Place | None:
        assert self._find is not None
        try:
            place = await self._find(name)
        except Exception:
            # A mistake of ours; the client is to get an answer nevertheless.
            log.exception("nobody could be asked who keeps %r", name)
            return None
        if place is not None:
            self._ids.learn(name, place, monotonic())
        return place
