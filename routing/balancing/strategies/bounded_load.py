"""Bounded load: how many requests a replica may have in flight before its keys overflow to others.

Theory. A replica may have ``c`` times its fair share of all requests in flight, the one to be placed
included: ``⌈c · (T + 1) · share / Σ share⌉``, with ``c`` a little above 1. Some replica is always below that.
An idle replica may always take one.

Requests that others have at a replica, as it reports (:mod:`routing.balancing.learning.reported_load`),
cannot be moved away. A replica that has more than the fair share by those alone is full. It counts neither in
``T`` nor in ``Σ share``: the fair share is that of the other replicas. Otherwise one replica with a thousand
requests, or with a wrong report, would raise everybody's bound until it bounds nobody.

This bound alone has a flaw: if all requests have the same key, ``1 / c`` of the replicas get everything and
the others nothing. Above that part of the fleet's capacity, queues grow without end. So a replica also takes
no more while it has ``2 · c`` times what the least loaded would have with the request. With many keys this is
rarely the lower bound. In a large pool a sample stands for all, another one each time: of hundreds of
replicas one is nearly always idle, and would draw too many keys from their homes.

Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads" (arXiv 1608.01350) for the
first; the second is from our own simulations.
"""

from collections.abc import Sequence
from math import inf

from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import LARGE_POOL, SAMPLE

_OF_LEAST = 2.0
_LEAST_COST = 1e-12
"""Seconds: by a coarse clock all answers may have taken none."""


class BoundedLoad:
    """Of one fleet. In a large pool the sum of loads is renewed every few picks, which count meanwhile."""

    __slots__ = (
        "_all_shares",
        "_at",
        "_by_speed",
        "_left",
        "_load",
        "_of",
        "_of_least",
        "_others",
        "_shares",
        "factor",
    )

    def __init__(self, factor: float, by_speed: bool = False) -> None:
        """``by_speed``: shares are by what was learned, ``1 / cost``, and not by weight."""
        self.factor = factor
        self._of_least = _OF_LEAST * factor
        self._by_speed = by_speed
        self._of: Sequence[Replica] = ()
        self._all_shares = self._shares = 1.0
        """Of all, and of those that are counted."""
        self._others = False
        """Whether others have requests at any of them: that is read on the pool's slow timer, as lists are
        renewed."""
        self._load = 0
        self._left = 0
        self._at = 0
        """From which of a large pool on those stand that are looked at for the least loaded."""

    @property
    def total_share(self) -> float:
        """Of all candidates of the last :meth:`per_share`."""
        return self._all_shares

    def per_share(self, candidates: Sequence[Replica]) -> float:
        """A replica may take one more while its load is below its share times this."""
        if candidates is not self._of:
            self._of = candidates
            self._all_shares = sum(self._shares_of(candidates))
            self._others = any(replica.external_load for replica in candidates)
            self._left = 0
        if len(candidates) > LARGE_POOL:
            candidates = self._stand_for(candidates)
            load, least = self._load, self._least(candidates)[1]
        else:
            load, least = self._least(candidates)
            if self._others:
                load = self._leave_out_full(candidates, load)
            else:
                self._shares = self._all_shares
        bound = self.factor * (load + 1) / self._shares
        least *= self._of_least
        return bound if bound < least else least

    def _stand_for(self, candidates: Sequence[Replica]) -> Sequence[Replica]:
        """Bring the sum of a large pool up to date. Those of it that stand for all."""
        size = len(candidates)
        if self._left:
            self._left -= 1
            self._load += 1
        else:
            self._left = size // LARGE_POOL
            self._load, self._shares = sum([replica.load for replica in candidates]), self._all_shares
            if self._others:
                self._load = self._leave_out_full(candidates, self._load)
        at = self._at = (self._at + SAMPLE) % size
        return candidates[at : at + SAMPLE]

    def _least(self, candidates: Sequence[Replica]) -> tuple[int, float]:
        """What all have, and what the least loaded would have with one more, for its share."""
        # In one loop for both, and one kind of share in it: this runs for every pick.
        load, least = 0, inf
        if self._by_speed:
            for replica in candidates:
                has = replica.load
                load += has
                one_more = (has + 1) * replica.cost
                if one_more < least:
                    least = one_more
        else:
            for replica in candidates:
                has = replica.load
                load += has
                one_more = (has + 1) / replica.share
                if one_more < least:
                    least = one_more
        return load, least

    def _leave_out_full(self, candidates: Sequence[Replica], load: int) -> int:
        """What the others have, and count the shares of those alone: without the ones that have more than
        the fair share without any request of ours."""
        self._shares = self._all_shares
        others = [
            (one.external_load / share, one.external_load, share)
            for one, share in zip(candidates, self._shares_of(candidates), strict=True)
        ]
        others.sort(reverse=True)
        for per_share, external_load, share in others[:-1]:
            if per_share * self._shares <= load + 1:
                break
            load -= external_load
            self._shares -= share
        return load

    def _shares_of(self, candidates: Sequence[Replica]) -> list[float]:
        if self._by_speed:
            return [1 / max(one.cost, _LEAST_COST) for one in candidates]
        return [one.share for one in candidates]
