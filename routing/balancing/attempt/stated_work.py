"""Stated work: what a client says of its request's work, for the pick alone.

Whoever states wrong figures should harm nobody else. So a replica is picked by what was stated, and the
request counts there as that much load while it runs, so that the next ones go elsewhere. All that lasts is
learned from the fleet's own estimate: speeds, mean sizes, corrections of estimates. Turns in the queue are
charged by it, and reservations of memory and patience with a silent replica go by it too.
"""

from __future__ import annotations

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.replica.state import Replica


class StatedAttempt(Attempt):
    """Replaces an attempt that was begun by stated work, and is settled in its place."""

    __slots__ = ("_own_work",)

    def __init__(self, attempt: Attempt, own_work: float, own_uncalibrated: float) -> None:
        """Takes over ``attempt``, which counts at its replica as before. ``own_work``: the proxy's own
        estimate of its work, ``own_uncalibrated`` the same before calibration."""
        self.take_over(attempt)
        self.uncalibrated_work = own_uncalibrated
        self._own_work = own_work

    @property
    def own_work(self) -> float:
        return self._own_work

    def _uncount(self, replica: Replica) -> None:
        super()._uncount(replica)
        # From here on it is learned from.
        self.work = self._own_work
