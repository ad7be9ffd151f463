"""Residuals: how far the last predictions were off, as quantiles that make an interval of the next one.

Theory. What a request takes is its prediction times an error. The last :data:`MOST` errors are kept as
logarithms, in order, and their empirical quantiles are those of the next error if it is drawn as they were
(*split conformal prediction*). So the interval has the share that it claims, whatever the errors'
distribution is: no variance is fitted, and long tails are where they were seen. The median corrects what
predictions are off by on the whole. While there are few errors a lognormal distribution is assumed.

Source: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005). Failure mode: after a
change the interval is of the time before, until half of the errors are new.
"""

from bisect import bisect_left, insort
from collections import deque

MOST = 200
LEAST = 20
"""Until there are so many, the assumed spread holds."""
SHARE = 0.8
"""Of the errors that lie between ``low`` and ``high``."""
ASSUMED = 1.28
"""Quantile of a normal distribution of variance 1: nothing is known but the order of magnitude."""


class Residuals:
    """Of one kind of prediction. Errors are natural logarithms of what it took over what was expected."""

    __slots__ = ("_last", "_sorted", "high", "low", "median")

    def __init__(self) -> None:
        self.low, self.median, self.high = -ASSUMED, 0.0, ASSUMED
        """10th, 50th and 90th percentile."""
        self._last: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def known(self) -> bool:
        """Whether the quantiles are measured."""
        return len(self._sorted) >= LEAST

    def learn(self, error: float) -> None:
        """One error more."""
        last, ordered = self._last, self._sorted
        if len(last) == MOST:
            del ordered[bisect_left(ordered, last.popleft())]
        last.append(error)
        insort(ordered, error)
        count = len(ordered)
        if count >= LEAST:
            below = int((1.0 - SHARE) / 2 * (count + 1)) - 1
            self.low, self.high = ordered[below], ordered[count - 1 - below]
            middle = count // 2
            self.median = (ordered[middle] + ordered[count - 1 - middle]) / 2
