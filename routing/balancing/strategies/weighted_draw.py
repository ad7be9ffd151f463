"""Weighted random draw of replicas.

The weights of a list are summed up once; a draw is then one random number and one binary search, so a
pool of a thousand costs what a pool of ten does, and no sample is needed. Lists of candidates are
replaced, never edited, and weights change only with them, so the sums hold as long as the list.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from routing.balancing.replica.state import Replica


class WeightedDraw:
    """Running sums of one list's weights, renewed when another list comes."""

    __slots__ = ("_ends", "_last", "_of", "_total")

    def __init__(self) -> None:
        self._of: Sequence[Replica] = ()
        self._ends: list[float] = []
        """Where each replica's share of ``0 … total`` ends."""
        self._last = -1
        self._total = 0.0

    def one(self, candidates: Sequence[Replica], rng: Random) -> Replica:
        """One of one or more candidates, each as often as its weight says."""
        self._renew(candidates)
        # `hi`: rounding must not lead past the last one.
        return candidates[bisect_right(self._ends, rng.random() * self._total, 0, self._last)]

    def distinct(self, candidates: Sequence[Replica], count: int, rng: Random) -> list[Replica]:
        """Up to ``count`` different ones, in the order drawn: each by weight among those that were left.

        Nothing is drawn twice and thrown away: what was drawn is cut out of ``0 … total``, and a number
        that falls behind the cut is shifted over it.
        """
        self._renew(candidates)
        ends, left = self._ends, self._total
        taken: list[int] = []
        drawn: list[Replica] = []
        for _ in range(min(count, len(candidates))):
            at = rng.random() * left
            for index in taken:
                begin = ends[index - 1] if index else 0.0
                if at < begin:
                    break
                at += ends[index] - begin
            index = bisect_right(ends, at, 0, self._last)
            drawn.append(candidates[index])
            left -= ends[index] - (ends[index - 1] if index else 0.0)
            insort(taken, index)
        return drawn

    def _renew(self, candidates: Sequence[Replica]) -> None:
        if candidates is not self._of:
            self._of = candidates
            self._ends = list(accumulate(replica.share for replica in candidates))
            self._last = len(candidates) - 1
            self._total = self._ends[-1]
