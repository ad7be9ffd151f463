"""Zone-aware routing: the replicas of one pool by site, divided before the strategy picks among them.

The rules and their theory are in :mod:`routing.balancing.locality.spillover`. A pool has one of these only
where sites matter.
"""

from collections.abc import Sequence
from math import inf
from random import Random

from routing.balancing.locality.spillover import least_seconds, misses_deadline, spill_share, utilization
from routing.balancing.outlier.eligibility import Eligibility
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import LARGE_POOL, sample
from routing.contract.policy import Locality

LARGE_RENEWED_S = 0.005
"""Of more replicas than a strategy looks at, how busy they are is summed up so often, not for each
request."""
KEYS = 1 << 64
"""Hashes of keys are below it."""


class SiteSplit:
    """The replicas of one pool, as seen from one site. Times are monotonic seconds."""

    def __init__(self, own: str, locality: Locality, listed: Sequence[Replica]) -> None:
        """``listed``: all that are in the table."""
        self.own = own
        self._locality = locality
        self.spill_above = locality.spill_above
        self._listed_near, self._listed_far = self._divided(listed)
        self._counted = self._picked()
        self._eligible: Sequence[Replica] = ()
        self._near: Sequence[Replica] = ()
        self._far: Sequence[Replica] = ()
        self._share = 0.0
        self._share_due = -inf

    @classmethod
    def seen_from(cls, own: str, locality: Locality, listed: Sequence[Replica]) -> "SiteSplit | None":
        """``None``: the proxy has no site, all replicas are near or all are far, or the policy prefers
        none."""
        if not own or locality.prefer == "none":
            return None
        sites = cls(own, locality, listed)
        return sites if 0 < len(sites._listed_far) < len(listed) else None

    def is_far(self, replica: Replica) -> bool:
        """Whether it is at another site."""
        return replica.spec.site not in ("", self.own)

    def divide(self, found: Eligibility) -> bool:
        """Take note of who can be asked, when that has changed. Whether there is something to choose."""
        self._eligible = found.eligible
        self._near, self._far = self._divided(found.eligible)
        self._share_due = -inf
        return bool(self._near and self._far) and not (found.panic or found.last_resort)

    def side(
        self,
        candidates: Sequence[Replica],
        work: float,
        now: float,
        rng: Random,
        key: tuple[int, ...] = (),
        until: float = inf,
    ) -> Sequence[Replica]:
        """Those of one or more candidates among which the strategy is to pick, all here or all elsewhere.

        ``key``: of the request, as hashes. ``until``: when its client stops waiting.
        """
        whole = candidates is self._eligible
        near, far = (self._near, self._far) if whole else self._divided(candidates)
        if not near or not far:
            return near or far
        if until < inf:
            left_s = until - now
            late = misses_deadline(sample(near, rng), work, left_s)
            in_time = [one for one in sample(far, rng) if not misses_deadline((one,), work, left_s)]
            if late and in_time:
                return in_time
            if not late and not in_time:
                return near
            far = in_time or far
        if not whole or len(candidates) <= LARGE_POOL:
            share = self._share_of(near, far, rng)
        else:
            if now >= self._share_due:
                self._share, self._share_due = self._share_of(near, far, rng), now + LARGE_RENEWED_S
            share = self._share
        if not share:
            return near
        # The last: prompts may all begin alike, and would all go or all stay by their first block.
        return far if (key[-1] / KEYS if key else rng.random()) < share else near

    def is_here(self, side: Sequence[Replica]) -> bool:
        """Whether :meth:`side` has answered with the own site's replicas."""
        return not self.is_far(side[0])

    def beyond(self, candidates: Sequence[Replica], here: bool) -> Sequence[Replica]:
        """Those of the other sites, or of the own: where a request goes that would have to wait here, or
        elsewhere."""
        near, far = (self._near, self._far) if candidates is self._eligible else self._divided(candidates)
        return far if here else near

    def went(self) -> tuple[int, int]:
        """How many attempts have stayed here, and gone to other sites, since this was last asked."""
        before, self._counted = self._counted, self._picked()
        return self._counted[0] - before[0], self._counted[1] - before[1]

    def when_asked(self, replica: Replica) -> str:
        """When a replica of another site is asked, in words; empty: it is near."""
        if not self.is_far(replica):
            return ""
        return self._locality.when_asked(replica.spec.site, self.own)

    def _divided(self, replicas: Sequence[Replica]) -> tuple[list[Replica], list[Replica]]:
        near: list[Replica] = []
        far: list[Replica] = []
        for replica in replicas:
            (far if self.is_far(replica) else near).append(replica)
        return near, far

    def _share_of(self, near: Sequence[Replica], far: Sequence[Replica], rng: Random) -> float:
        busy, elsewhere = utilization(near), 0.0
        if busy is not None:
            if busy <= self.spill_above:
                return 0.0
            elsewhere = utilization(far) or 0.0
        else:
            busy = 1.0 - least_seconds(sample(far, rng)) / least_seconds(sample(near, rng))
        return spill_share(busy, elsewhere, self.spill_above)

    def _picked(self) -> tuple[int, int]:
        near, far = self._listed_near, self._listed_far
        return sum(replica.picked for replica in near), sum(replica.picked for replica in far)
