"""Who calls those that wait: when a place may be free, when another worker says so, and every few ms."""

from __future__ import annotations

import asyncio
from time import monotonic

from routing.pool.admission import LOOK_EVERY_S, Admission
from routing.shared.wake_ups import WakeUps


class WaitingRoom:
    """Of one worker, for the lines of all its fleets (:class:`routing.pool.admission.Caller`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wakes = WakeUps(())
        self._soon: dict[Admission, None] = {}
        """Lines to look at as soon as what happens now is over."""
        self._lines: set[Admission] = set()
        """Those in which somebody waits."""
        self._ticking = False

    def hear(self, wakes: WakeUps, worker: int) -> None:
        """From now on this worker can be woken by the others of its host, and wake them."""
        self._wakes = wakes
        if wakes.fds:
            self._loop.add_reader(wakes.fds[worker], self._woken, worker)

    def look_soon(self, admission: Admission) -> None:
        if not self._soon:
            self._loop.call_soon(self._look)
        self._soon[admission] = None

    def wake(self, worker: int) -> None:
        self._wakes.wake(worker)

    def _look(self) -> None:
        soon, self._soon = self._soon, {}
        # First, so that whoever waits is looked at again whatever happens here.
        self._lines.update(admission for admission in soon if len(admission.line))
        if self._lines and not self._ticking:
            self._ticking = True
            self._loop.call_later(LOOK_EVERY_S, self._tick)
        now = monotonic()
        for admission in soon:
            admission.serve(now)

    def _woken(self, worker: int) -> None:
        self._wakes.hear(worker)
        now = monotonic()
        for admission in list(self._lines):
            admission.serve(now, woken=True)

    def _tick(self) -> None:
        now = monotonic()
        try:
            for admission in list(self._lines):
                admission.serve(now, yields=False)
        finally:
            self._lines = {admission for admission in self._lines if len(admission.line)}
            self._ticking = bool(self._lines)
            if self._ticking:
                self._loop.call_later(LOOK_EVERY_S, self._tick)
