"""Residuals: how far the last predictions were off, as quantiles that make an interval of the next one.

Theory. What a request takes is its prediction times an error. The last :data:`MOST` errors are kept as
logarithms, in order, and their empirical quantiles are those of the next error if it is drawn as they were
(*split conformal prediction*). So the interval has the share that it claims, whatever the errors'
distribution is: no variance is fitted, and long tails are where they were seen. The median corrects what
predictions are off by on the whole. While there are few errors a lognormal distribution is assumed.

Source: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005). Failure mode: after a
change the interval is of the time before, until half of the errors are new.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque

MOST = 200
LEAST = 20
"""Until there are so many, the assumed spread holds."""
SHARE = 0.8
"""Of the errors that lie between ``low`` and ``high``."""
_GOLDEN = 0.618034
"""Multiples of it, without the whole part, are spread evenly."""
ASSUMED = 1.28
"""Quantile of a normal distribution of variance 1: nothing is known but the order of magnitude."""


class Residuals:
    """Of one kind of prediction. Errors are natural logarithms of what it took over what was expected."""

    __slots__ = ("_last", "_sorted", "_turn", "high", "low", "median")

    def __init__(self) -> None:
        self.low, self.median, self.high = -ASSUMED, 0.0, ASSUMED
        """10th, 50th and 90th percentile."""
        self._last: deque[float] = deque()
        self._sorted: list[float] = []
        self._turn = 0.0

    @property
    def known(self) -> bool:
        """Whether the quantiles are measured."""
        return len(self._sorted) >= LEAST

    def share_within(self, error: float) -> float:
        """How large a share of errors is no larger; 0 or 1 if all or none of those that were kept are."""
        return bisect_right(self._sorted, error) / len(self._sorted)

    def learn_at_least(self, error: float) -> None:
        """One whose request ended before it was known how large the error would be: at least so much (a
        *censored* observation). It counts as one of those that were larger, each of them in turn, which is
        Efron's redistribution to the right."""
        ordered = self._sorted
        self._turn = (self._turn + _GOLDEN) % 1.0
        at = bisect_left(ordered, error)
        if at < len(ordered):
            error = ordered[at + int(self._turn * (len(ordered) - at))]
        self.learn(error)

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
