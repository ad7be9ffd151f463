"""How much load a replica may have before its keys go elsewhere.

Theory. A replica may have ``c`` times its fair share of all requests in flight, the one to be placed among
them: ``⌈c · (T + 1) · share / Σ share⌉``, with ``c`` above 1 a little. Somebody is always below that. An
idle replica may always take one.

Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads" (arXiv 1608.01350).
"""

from collections.abc import Sequence

from routing.replica import Replica
from routing.strategies.sampling import LARGE_POOL


class LoadBound:
    """Of one fleet. In a large pool the sum of loads is renewed every few picks, which count meanwhile."""

    __slots__ = ("_by_speed", "_left", "_load", "_of", "_shares", "factor")

    def __init__(self, factor: float, by_speed: bool = False) -> None:
        """``by_speed``: shares are by what was learned, ``1 / cost``, and not by weight."""
        self.factor = factor
        self._by_speed = by_speed
        self._of: Sequence[Replica] = ()
        self._shares = 1.0
        self._load = 0
        self._left = 0

    def per_share(self, candidates: Sequence[Replica]) -> float:
        """A replica may take one more while its load is below its share times this."""
        if candidates is not self._of:
            self._of = candidates
            self._shares = sum(
                [1 / one.cost for one in candidates] if self._by_speed else [one.share for one in candidates]
            )
            self._left = 0
        if self._left:
            self._left -= 1
            self._load += 1
        else:
            self._left = len(candidates) // LARGE_POOL
            load = 0
            for replica in candidates:
                load += replica.load
            self._load = load
        return self.factor * (self._load + 1) / self._shares
