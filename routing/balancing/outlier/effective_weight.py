"""Effective weight: what slow start and soft ejection leave of a replica's weight and concurrency limit.

This module alone writes the fields that say how much a replica gets: ``ramp``, ``share``, ``concurrency``,
``limit``, ``limited`` and ``slot_freed``. The rules only say by what factor:
:mod:`routing.balancing.outlier.slow_start`, :mod:`routing.balancing.outlier.slow_start_pacing` and
:mod:`routing.balancing.outlier.soft_ejection`. The slow timer computes everything anew. A soft ejection takes
effect at once, between two timers.
"""

from collections.abc import Callable, Sequence

from routing.balancing.outlier import slow_start, slow_start_pacing, soft_ejection
from routing.balancing.replica.state import Replica
from routing.contract.policy import Policy
from routing.shared.quota_share import QuotaShare


class EffectiveWeights:
    """Of one pool in one worker, which sets :attr:`policy` whenever it changes."""

    __slots__ = ("_host_share", "_pacer", "_slot_freed", "policy")

    def __init__(self, host_share: QuotaShare, slot_freed: Callable[[Replica], None]) -> None:
        """``host_share``: this proxy's part of a limit. ``slot_freed``: called with a replica that has a
        limit when a request has ended there."""
        self._host_share = host_share
        self._slot_freed = slot_freed
        self._pacer = slow_start_pacing.SlowStartPacer()
        self.policy = Policy()

    def update(
        self,
        replicas: Sequence[Replica],
        eligible: Sequence[Replica],
        waited_s: float,
        mean_answer_s: float,
        now: float,
    ) -> bool:
        """On the slow timer, for all replicas. Returns whether requests need a slot at any of them.

        ``waited_s``: how long the oldest request of the queue has waited. ``mean_answer_s``: the fleet's mean
        response time.
        """
        self._pacer.look(eligible, waited_s, mean_answer_s)
        over_s = slow_start.duration_s(self.policy.slow_start_s, mean_answer_s)
        limited = False
        for replica in replicas:
            self._update_one(replica, over_s, now)
            limited |= replica.limited
        return limited

    def _update_one(self, replica: Replica, over_s: float, now: float) -> None:
        spec = replica.spec
        share = slow_start.advance(replica, now, over_s)
        limit = spec.max_concurrency if spec.max_concurrency is not None else self.policy.max_concurrency
        own = None if limit is None else self._host_share.share_of(limit)
        slots = own if self.policy.queue.at == "proxy" else None
        paced = share < 1.0 and self._pacer.is_due(replica, share, has_slots=slots is not None)
        replica.concurrency = slow_start.slots(own, share)
        if replica.ejection.soft_until:
            share *= soft_ejection.share(replica, now)
        elif paced and slots is None:
            share *= slow_start_pacing.SHARE
        replica.ramp = share
        replica.share = spec.weight * share
        replica.limit = None if slots is None else replica.concurrency
        if replica.limit and (paced or replica.ejection.soft_until):
            replica.limit = 0
        replica.limited = limited = replica.limit is not None or replica.memory is not None
        replica.slot_freed = self._slot_freed if limited else None


def soft_eject(replica: Replica) -> None:
    """A soft ejection begins: from now on the replica has a hundredth of its weight, and no slot."""
    replica.ramp *= soft_ejection.SHARE
    replica.share *= soft_ejection.SHARE
    # As FleetSpeed computes it: seconds per unit of work over the ramp.
    replica.cost /= soft_ejection.SHARE
    if replica.limit:
        replica.limit = 0
