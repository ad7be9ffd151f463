"""Stall meter (event loop lag): how long this process's probe loop was kept from running.

Theory. A time limit is meant for the replica, but what runs out is the prober's own clock: on a saturated
host a loop gets no CPU, its timers fire late, and answers that are long there are not read. So the loop
measures itself: a timer that should fire every BEAT_S fires later by as much as the loop was not running,
whatever the reason (no CPU, another thread, its own backlog). A probe's limit then counts only time in
which the loop ran: :class:`.time_limit.TimeLimit`. A replica that hangs is still found, later; one that is
slow only because this host is (they often share it) is not blamed.
"""

import asyncio
import time

BEAT_S = 0.02
SLACK_S = 0.004
"""A timer's own inexactness, which is no stall."""


class StallMeter:
    """Of one event loop. ``stalled_s`` grows only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stalled_s = 0.0
        self._due = 0.0

    def start(self) -> None:
        self._due = time.monotonic() + BEAT_S
        self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        self._stalled_s += self._late_s()
        self.start()

    def stalled_s(self) -> float:
        """In all, also of a stall that goes on now."""
        return self._stalled_s + self._late_s()

    def _late_s(self) -> float:
        late_s = time.monotonic() - self._due - SLACK_S
        return late_s if late_s > 0 else 0.0
