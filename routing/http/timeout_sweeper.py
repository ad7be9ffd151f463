"""Timeout sweeper: time limits, kept by one coarse timer per worker instead of one timer per request.

Every ``PERIOD_S`` the sweeper checks each open client connection. A connection names the earliest time at
which it wants to be checked (``deadline``). A busy one simply says 0.0, so that starting and ending a request
costs no timer at all. Limits are therefore kept to within ``PERIOD_S``, or within what a response that has
begun allows. Thousands are checked in slices of ``AT_ONCE``, between which the loop serves others.

Where the loop was held for long (a stopped process, a starved machine), timers run before what has come
meanwhile is read. So a sweep that is late lets the loop read first: nobody has exceeded a limit because this
process slept.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final, Protocol

PERIOD_S: Final = 0.1
LATE_S: Final = 0.5
READ_FIRST_S: Final = 0.01
AT_ONCE: Final = 64
"""Members checked in one turn of the loop: well under a millisecond."""


class Timed(Protocol):
    """Something with a deadline: a connection, a pool of them, a handshake; checked from time to time."""

    deadline: float
    """``time.monotonic()`` seconds."""

    def check(self, now: float) -> None: ...


class TimeoutSweeper:
    """Runs while anything is registered; costs nothing otherwise."""

    __slots__ = ("_due", "_left", "_loop", "_timer", "members")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._left: list[Timed] = []
        """Those that the sweep under way has still to check."""
        self.members: set[Timed] = set()

    def add(self, member: Timed) -> None:
        self.members.add(member)
        if self._timer is None and not self._left:
            self._wait(PERIOD_S)

    def discard(self, member: Timed) -> None:
        self.members.discard(member)

    def _sweep(self) -> None:
        self._timer = None
        now = monotonic()
        if now - self._due > LATE_S:
            self._wait(READ_FIRST_S)
            return
        self._left = [member for member in self.members if member.deadline <= now]
        self._check_some()

    def _check_some(self) -> None:
        now, left, members = monotonic(), self._left, self.members
        try:
            for _ in range(min(AT_ONCE, len(left))):
                member = left.pop()
                if member in members:
                    member.check(now)
        finally:
            if left:
                self._loop.call_soon(self._check_some)
            elif members and self._timer is None:
                self._wait(PERIOD_S)

    def _wait(self, seconds: float) -> None:
        self._due = monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._sweep)
