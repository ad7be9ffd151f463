"""Forecast of a fleet's rate of requests, one second after the other. Pure.

The level is the mean of the last minute, unless a shorter look shows more than chance would have it: a jump
counts within seconds, noise does not. Requests that come independently of each other vary by the root of
their number; those that come in bursts by more, which is measured from second to second. The trend is what
nearly each PART_S of the last minute has more than the one before, so that a jump that is over is no trend;
it is followed for as long as a replica takes to start.
"""

from collections import deque
from itertools import islice, pairwise
from math import sqrt

LOOKS_S = (3, 10, 60)
"""Seconds, the shortest first."""
KEPT_S = LOOKS_S[-1]
PART_S = 10
CHANCE = 4.0
"""Standard deviations that are taken for chance."""
MEDIAN_OF_SQUARES = 0.91
"""Median of the squared difference of two normal variables of variance 1."""
MOST = 2.0
"""A trend is followed up to so many times the level."""


class Arrivals:
    """Requests of each of the last seconds."""

    def __init__(self) -> None:
        self._per_s: deque[float] = deque(maxlen=KEPT_S)

    def add(self, per_s: float) -> None:
        """One second's rate: all that clients have sent, whatever became of it."""
        self._per_s.append(per_s)

    @property
    def seconds(self) -> int:
        return len(self._per_s)

    def level(self) -> float:
        """Requests a second, now."""
        usual = self._mean(LOOKS_S[-1])
        for look_s in LOOKS_S[:-1]:
            lately = self._mean(look_s)
            if lately <= usual:
                continue
            # Of an idle fleet one request is already more than usual.
            if lately - usual > CHANCE * sqrt(max(self._spread(usual), 1 / look_s) / look_s):
                return lately
        return usual

    def expected(self, level: float, after_s: float) -> float:
        """Requests a second in so many seconds, of which there are ``level`` now; never fewer than now."""
        return min(level + self._rise_per_s() * max(after_s, 0.0), MOST * level)

    def _mean(self, look_s: int) -> float:
        count = min(look_s, len(self._per_s))
        return sum(islice(reversed(self._per_s), count)) / count if count else 0.0

    def _spread(self, usual: float) -> float:
        """Variance of one second's requests: that of independent ones, or what half of the seconds differ by
        from the ones before, which no single jump changes."""
        squares = sorted((one - other) ** 2 for one, other in pairwise(self._per_s))
        return max(usual, squares[len(squares) // 2] / MEDIAN_OF_SQUARES if squares else 0.0)

    def _rise_per_s(self) -> float:
        """By which the rate grows each second, as far as that is no chance."""
        values = list(self._per_s)
        if len(values) < KEPT_S:
            return 0.0
        means = [sum(values[first : first + PART_S]) / PART_S for first in range(0, KEPT_S, PART_S)]
        # A jump of a few seconds lies in two parts, so at most three of these five are not chance.
        rise = sorted(after - before for before, after in pairwise(means))[1]
        if rise <= 0:
            return 0.0
        by_chance = sqrt(2 * self._spread(sum(values) / KEPT_S) / PART_S)
        return max(rise - by_chance / 2, 0.0) / PART_S
