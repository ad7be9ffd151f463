"""Common-mode failure: the whole fleet fails or hangs alike, so that no single replica is at fault.

Theory. What lies behind all replicas fails for some seconds: their network, their host, a store that all of
them ask. Failures are counted by replica all the same, and some of them come only afterwards, when requests
that hung reach their time limits. Whichever replica has had the fewest answers since then has the worst
success rate, and would be ejected for it, alone.

So a fleet fails as a whole while none of its replicas succeeds, and more than half of those in use, two at
least, fail or are silent. There must be as many failures of the whole fleet as eject one replica, or most
replicas silent for as long as a fast fleet waits (:mod:`routing.balancing.outlier.silence`). It ends with the
next success of any replica. Then the evidence begins anew for all: what was sent before says nothing of a
replica, just as after its own return. Those that were ejected meanwhile have their probe requests at once.

Where one replica succeeds all along, it is not the whole fleet. Failure mode: two replicas that both fail now
and then fail together at times, and are judged later for that.

Source: our own. Envoy's success rate ejection compares hosts within one interval of ten seconds, so that what
all had in another one is not counted at all. Here windows are longer, for fleets where responses are rare.
"""

from collections.abc import Sequence

from routing.balancing.outlier import eligibility
from routing.balancing.replica.state import Replica

AT_LEAST = 2
"""Replicas: what one of them does is no fault of the fleet."""


class CommonFailure:
    """Of one fleet. The workers of a host count failures together, each its own silence."""

    __slots__ = ("_lasts", "_succeeded", "began_at", "ended_at")

    def __init__(self) -> None:
        self._succeeded = 0
        """Successes of the fleet, when there was one more."""
        self._lasts = False
        self.began_at = 0.0
        """When the fleet last succeeded before the one that lasts, or has just ended; if it never did, when
        it was first looked at."""
        self.ended_at = 0.0
        """When the last one ended: no failure of what was sent before counts."""

    def follow(self, replicas: Sequence[Replica], now: float, limit: int, patience_s: float) -> bool:
        """On the slow timer, when the success rate's counts are up to date: whether one has just ended.
        ``limit``: failures in a row that eject. ``patience_s``: after which a replica is silent."""
        self.began_at = self.began_at or now
        succeeded = sum([one.ejection.windows.all_succeeded for one in replicas])
        if succeeded <= self._succeeded:
            # Fewer: a replica has left the table, or a worker has ended, and took its successes along.
            self._succeeded = succeeded
            self._lasts = self._lasts or self._all_alike(replicas, now, limit, patience_s)
            return False
        ended, self._lasts = self._lasts, False
        self._succeeded = succeeded
        if ended:
            self.ended_at = now
        else:
            self.began_at = now
        for replica in replicas:
            window = replica.ejection.windows
            if window.failed_before != window.all_failed:
                window.failed_before = window.all_failed
        return ended

    def _all_alike(self, replicas: Sequence[Replica], now: float, limit: int, patience_s: float) -> bool:
        in_use = alike = failures = silent = 0
        for replica in replicas:
            state = replica.ejection
            if eligibility.is_closed(replica) or 0 < state.since < self.began_at:
                continue
            failed = max(0, state.windows.all_failed - state.windows.failed_before)
            is_silent = replica.in_flight > replica.stall_exempt and now - replica.quiet_since > patience_s
            in_use += 1
            failures += failed
            silent += is_silent
            alike += is_silent or failed > 0
        return alike >= AT_LEAST and 2 * alike > in_use and (failures >= limit or 2 * silent > in_use)
