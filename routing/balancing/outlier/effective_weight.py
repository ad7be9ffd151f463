"""Effective weight: what slow start and soft ejection leave of a replica's weight and concurrency limit.

This module alone writes the fields that say how much a replica gets: ``ramp``, ``share``, ``concurrency``,
``limit``, ``limited`` and ``slot_freed``. The rules only say by what factor:
:mod:`routing.balancing.outlier.slow_start`, :mod:`routing.balancing.outlier.slow_start_pacing` and
:mod:`routing.balancing.outlier.soft_ejection`. The slow timer computes anew what may have changed: most
replicas have the weight of their spec and are passed over. A soft ejection takes effect at once, between two
timers.
"""

from collections.abc import Callable, Iterable, Sequence

from routing.balancing.outlier import slow_start, slow_start_pacing, soft_ejection
from routing.balancing.replica.state import Replica
from routing.contract.policy import Policy
from routing.shared.quota_share import QuotaShare


class EffectiveWeights:
    """Of one pool in one worker, which sets :attr:`policy` whenever it changes."""

    __slots__ = ("_host_share", "_over_s", "_pacer", "_slot_freed", "_terms", "policy")

    def __init__(self, host_share: QuotaShare, slot_freed: Callable[[Replica], None]) -> None:
        """``host_share``: this proxy's part of a limit. ``slot_freed``: called with a replica that has a
        limit when a request has ended there."""
        self._host_share = host_share
        self._slot_freed = slot_freed
        self._pacer = slow_start_pacing.SlowStartPacer()
        self.policy = Policy()
        self._over_s = 0.0
        self._terms: tuple[Policy, int, int] = (self.policy, 0, 1)
        """What weights are computed by, beside the replica's spec: the same object while it holds."""

    def look(self, eligible: Sequence[Replica], waited_s: float, mean_answer_s: float) -> None:
        """On the slow timer, before :meth:`update`.

        ``waited_s``: how long the oldest request of the queue has waited. ``mean_answer_s``: the fleet's mean
        response time.
        """
        self._pacer.look(eligible, waited_s, mean_answer_s)
        self._over_s = slow_start.duration_s(self.policy.slow_start_s, mean_answer_s)

    def update(self, replicas: Iterable[Replica], now: float) -> bool:
        """On the slow timer, for all replicas or some. Returns whether requests need a slot at any."""
        terms = self._present_terms()
        limited = False
        for replica in replicas:
            start = replica.slow_start
            if (
                replica.weighed_by is not terms
                or replica.weighed_spec is not replica.spec
                or start.started is not None
                or start.pending
                or replica.ramp != 1.0
                or replica.ejection.soft_until
                or replica.limited is not (replica.limit is not None or replica.memory is not None)
            ):
                self._update_one(replica, now)
                replica.weighed_by, replica.weighed_spec = terms, replica.spec
            if replica.limited:
                limited = True
        return limited

    def introduce(self, replicas: Iterable[Replica], joins: bool) -> None:
        """Those of them that are new: before they are in use. ``joins``: they will be slow-started."""
        terms = self._present_terms()
        for replica in replicas:
            if replica.weighed_by is None:
                start = replica.slow_start
                start.pending = joins
                self._update_one(replica, 0.0)
                # It begins when it is looked at in use.
                start.pending, start.started = joins, None
                replica.weighed_by, replica.weighed_spec = terms, replica.spec

    def update_known(self, replicas: Sequence[Replica], now: float) -> bool:
        """As :meth:`update`, where a large table was just swapped in, without those that have the weight with
        which they were introduced."""
        terms = self._present_terms()
        known = [
            replica
            for replica in replicas
            if not replica.slow_start.pending
            or replica.ramp != slow_start.LEAST
            or replica.weighed_by is not terms
            or replica.weighed_spec is not replica.spec
        ]
        return self.update(known, now) or any(replica.limited for replica in replicas)

    def _present_terms(self) -> tuple[Policy, int, int]:
        """Another object if they have changed."""
        terms = (self.policy, self._host_share.position, self._host_share.count)
        if terms != self._terms:
            self._terms = terms
        return self._terms

    def _update_one(self, replica: Replica, now: float) -> None:
        spec = replica.spec
        share = slow_start.advance(replica, now, self._over_s)
        limit = spec.max_concurrency if spec.max_concurrency is not None else self.policy.max_concurrency
        own = None if limit is None else self._host_share.share_of(limit)
        slots = own if self.policy.queue.at == "proxy" else None
        paced = share < 1.0 and self._pacer.is_due(replica, share, has_slots=slots is not None)
        replica.concurrency = None if own is None else slow_start.slots(own, share)
        if replica.ejection.soft_until:
            share *= soft_ejection.share(replica, now)
        elif paced and slots is None:
            share *= slow_start_pacing.SHARE
        replica.ramp = share
        replica.share = spec.weight * share
        replica.cost = replica.seconds_per_work / share  # as FleetSpeed does, which may come later
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
