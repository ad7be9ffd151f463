"""Tunnel (upgrade, WebSocket): an attempt that has become a connection on which both sides send freely.

It is load at the replica for as long as it is open, and is counted there like a request. But how long it
stays open, and for how long it is silent, says nothing about the replica's speed or health, so neither is
learned.
"""

from routing.balancing.attempt.attempt import SETTLED, Attempt
from routing.balancing.attempt.outcome import Outcome


class TunnelAttempt(Attempt):
    """Replaces the attempt whose replica switched protocols, and is settled in its place."""

    __slots__ = ()

    def __init__(self, attempt: Attempt, now: float) -> None:
        """Settles ``attempt``. Throughout, the replica has exactly one request in flight for both."""
        replica = attempt.replica
        super().__init__(attempt._listener, attempt._speed, replica, 0.0, now)
        replica.picked -= 1
        replica.stall_exempt += 1
        if replica.memory is not None:
            replica.memory.pass_on(attempt, self)
        attempt.first_byte(now)
        attempt.settle(Outcome.SWITCHED, now)

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0, *, at_once: bool = False) -> int:
        """The tunnel was closed, in whatever way: it is uncounted, and nothing is learned from it."""
        if not self.mode:
            raise RuntimeError(f"a tunnel to {self.replica.name} was settled twice")
        self.mode = SETTLED
        replica = self.replica
        replica.stall_exempt -= 1
        self._uncount(replica)
        if replica.leaving and not replica.in_flight:
            self._listener.on_drained(replica)
        return 0
