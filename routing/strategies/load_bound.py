"""How much load a replica may have before its keys go elsewhere.

Theory. A replica may have ``c`` times its fair share of all requests in flight, the one to be placed among
them: ``⌈c · (T + 1) · share / Σ share⌉``, with ``c`` above 1 a little. Somebody is always below that. An
idle replica may always take one.

Requests that others have at a replica, as it reports (:mod:`routing.policies.reported_load`), cannot be moved
from it. One that has more than the fair share by those alone is full, and counts neither in ``T`` nor in
``Σ share``: the fair share is that of the others. Else one replica with a thousand requests, or one that says
so, would raise everybody's bound until it bounds nobody.

That alone lets ``1 / c`` of the replicas have everything where one key is in all requests, and the others
nothing: above that part of the fleet's capacity their queues grow without end. So nobody takes more either
while it has ``2 · c`` times what the least loaded would have with the request. Where keys are many this is
rarely the lower bound. Of a large pool a few stand for all, others each time: one of hundreds is nearly
always idle, and would draw too many from where they belong.

Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads" (arXiv 1608.01350) for the
first; the second is from our own simulations.
"""

from collections.abc import Sequence
from math import inf

from routing.replica import Replica
from routing.strategies.sampling import LARGE_POOL, SAMPLE

_OF_LEAST = 2.0


class LoadBound:
    """Of one fleet. In a large pool the sum of loads is renewed every few picks, which count meanwhile."""

    __slots__ = (
        "_all_shares",
        "_at",
        "_by_speed",
        "_left",
        "_load",
        "_of",
        "_of_least",
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
        self._load = 0
        self._left = 0
        self._at = 0
        """From which of a large pool on those stand that are looked at for the least loaded."""

    def per_share(self, candidates: Sequence[Replica]) -> float:
        """A replica may take one more while its load is below its share times this."""
        if candidates is not self._of:
            self._of = candidates
            self._all_shares = sum(self._shares_of(candidates))
            self._left = 0
        size = len(candidates)
        if self._left:
            self._left -= 1
            self._load += 1
        else:
            self._left = size // LARGE_POOL
            load = others = 0
            for replica in candidates:
                load += replica.load
                others += replica.elsewhere
            self._load, self._shares = load, self._all_shares
            if others:
                self._leave_out_full(candidates)
        if size > LARGE_POOL:
            at = self._at = (self._at + SAMPLE) % size
            candidates = candidates[at : at + SAMPLE]
        least = inf
        if self._by_speed:
            for replica in candidates:
                one_more = (replica.load + 1) * replica.cost
                if one_more < least:
                    least = one_more
        else:
            for replica in candidates:
                one_more = (replica.load + 1) / replica.share
                if one_more < least:
                    least = one_more
        bound = self.factor * (self._load + 1) / self._shares
        least *= self._of_least
        return bound if bound < least else least

    def _leave_out_full(self, candidates: Sequence[Replica]) -> None:
        """Those that have more than the fair share without any request of ours."""
        others = [
            (one.elsewhere / share, one.elsewhere, share)
            for one, share in zip(candidates, self._shares_of(candidates), strict=True)
        ]
        others.sort(reverse=True)
        for per_share, elsewhere, share in others[:-1]:
            if per_share * self._shares <= self._load + 1:
                break
            self._load -= elsewhere
            self._shares -= share

    def _shares_of(self, candidates: Sequence[Replica]) -> list[float]:
        if self._by_speed:
            return [1 / one.cost for one in candidates]
        return [one.share for one in candidates]
