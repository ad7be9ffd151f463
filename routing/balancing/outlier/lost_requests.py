"""Lost requests: those at a replica that will most likely never answer them, and what becomes of them.

They are freed: what may be sent twice is retried elsewhere, the rest goes on waiting or, if the replica is
dead, fails. A replica that was silent and has returned may have lost some with their connections. These are
looked for until none is left: retries have a budget. What cannot be retried is written off, so that it takes
no slot and is no load. When a replica is silent is said by :mod:`routing.balancing.outlier.silence`.
"""

from math import inf

from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.outlier import silence
from routing.balancing.outlier.census import Census
from routing.balancing.replica.state import Replica

FREED_AFTER_S = 2.0
"""How long a replica must have been silent before its requests are taken from it."""
LOST_AFTER_S = 1.0
"""How long after a return what was sent before may still be answered."""
AGAIN_EVERY_S = 1.0


class LostRequests:
    """Of one pool."""

    def __init__(self, census: Census, speed: FleetSpeed) -> None:
        self._census = census
        self._speed = speed

    def free_from_down(self, replica: Replica, now: float) -> None:
        """Its probes say that it is dead, and so does its silence. A replica that is drained finishes what it
        has."""
        silent_s = now - replica.quiet_since
        if replica.spec.admin_state != "active" or silent_s < FREED_AFTER_S:
            return
        if not self._census.is_panic(now):
            _free(replica, "its probes fail, and it is silent", all_of_them=True)

    def free_from_unreachable(self, replica: Replica, words: str, now: float) -> None:
        """No connection to it could be made, twice."""
        if now - replica.quiet_since >= FREED_AFTER_S:
            _free(replica, words)

    def free_from_silent(self, replica: Replica, words: str, now: float, before: float = inf) -> None:
        """``before``: only what was sent before that."""
        if silence.may_free(replica, self._census.answering(now), now, self._speed.p99_s):
            _free(replica, words, before=before)

    @staticmethod
    def expect(replica: Replica, before: float, now: float) -> None:
        """It was silent and has returned; some of what was sent ``before`` may be lost."""
        if replica.in_flight:
            state = replica.ejection
            state.lost_before = max(state.lost_before, before)
            state.lost_check_at = state.lost_check_at or now + LOST_AFTER_S

    def look_for(self, replica: Replica, work_s: float, stall_s: float, now: float) -> None:
        """On the slow timer, when it is time to. ``work_s``: what a unit of estimated work usually takes in
        this fleet, in seconds."""
        state, endpoint = replica.ejection, replica.endpoint
        self.free_from_silent(replica, "silent since before its return", now, state.lost_before)
        left = 0
        if endpoint is not None:
            for_s = silence.patience_s(self._speed.p99_s, stall_s)
            left = endpoint.write_off_silent(now, for_s, silence.TIMES_USUAL * work_s, state.lost_before)
        state.lost_check_at = now + AGAIN_EVERY_S if left else 0.0


def _free(replica: Replica, words: str, *, all_of_them: bool = False, before: float = inf) -> None:
    if replica.endpoint is not None and (replica.in_flight or replica.ejection.lost_check_at):
        words = f"the replica is lost: {words}"
        replica.endpoint.free_requests(words, all_of_them=all_of_them, before=before)
