"""How much load a replica may have before its keys go elsewhere.

Theory. A replica may have ``c`` times its fair share of all requests in flight, the one to be placed among
them: ``⌈c · (T + 1) · share / Σ share⌉``, with ``c`` above 1 a little. Somebody is always below that. An
idle replica may always take one.

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

    __slots__ = ("_at", "_by_speed", "_left", "_load", "_of", "_of_least", "_shares", "factor")

    def __init__(self, factor: float, by_speed: bool = False) -> None:
        """``by_speed``: shares are by what was learned, ``1 / cost``, and not by weight."""
        self.factor = factor
        self._of_least = _OF_LEAST * factor
        self._by_speed = by_speed
        self._of: Sequence[Replica] = ()
        self._shares = 1.0
        self._load = 0
        self._left = 0
        self._at = 0
        """From which of a large pool on those stand that are looked at for the least loaded."""

    def per_share(self, candidates: Sequence[Replica]) -> float:
        """A replica may take one more while its load is below its share times this."""
        if candidates is not self._of:
            self._of = candidates
            self._shares = sum(
                [1 / one.cost for one in candidates] if self._by_speed else [one.share for one in candidates]
            )
            self._left = 0
        size = len(candidates)
        if self._left:
            self._left -= 1
            self._load += 1
        else:
            self._left = size // LARGE_POOL
            load = 0
            for replica in candidates:
                load += replica.load
            self._load = load
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
