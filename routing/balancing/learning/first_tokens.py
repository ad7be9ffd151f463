"""First tokens: how long a fleet's streams take to begin, and from when on one is late.

Theory. A request that has waited for longer than nearly all others did is most likely not being served: the
replica has stalled, or is busy with something else. So the limit is the 99th percentile of the last
:data:`MOST` streams, and one request in a hundred passes it in a fleet that is well. Where first tokens
hardly vary that would be reached by chance, so it is :data:`LEAST_TIMES` times the median at least.

How long a stream takes to begin depends on its size. So what is kept is divided by how much longer a request
of its size takes than a usual one (:meth:`routing.balancing.learning.predictions.Predictions.size_factor`),
and the limit is multiplied by that.

A replica that another one has beaten is *censored*: it would have taken longer than it was given. If these
were left out, the percentile would be of the quick ones alone, and fall from one hundred to the next. So they
count as what they were given. Not those of a replica that was not heard at all meanwhile: it is not slow, it
is silent, and would say nothing of how long the others take.

Source: Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013 (hedged requests). Failure mode: after a
change the limit is of the time before, until half of the streams are new.
"""

from bisect import bisect_left, insort
from collections import deque

MOST = 500
LEAST = 20
"""Streams that are known: with fewer there is no limit."""
QUANTILE = 0.99
LEAST_TIMES = 3.0
SHORTEST_S = 0.1


class FirstTokens:
    """Of one fleet in one worker."""

    __slots__ = ("_last", "_sorted")

    def __init__(self) -> None:
        self._last: deque[float] = deque()
        self._sorted: list[float] = []

    def learn(self, seconds: float, size_factor: float) -> None:
        """A stream has begun so long after it was sent, or would have taken longer."""
        last, ordered = self._last, self._sorted
        seconds /= size_factor
        if len(last) == MOST:
            del ordered[bisect_left(ordered, last.popleft())]
        last.append(seconds)
        insort(ordered, seconds)

    def limit_s(self, size_factor: float) -> float | None:
        """After how many seconds a stream is late; ``None``: too few are known."""
        ordered = self._sorted
        count = len(ordered)
        if count < LEAST:
            return None
        late_s = ordered[min(int(QUANTILE * count), count - 1)]
        return max(SHORTEST_S, size_factor * max(late_s, LEAST_TIMES * ordered[count // 2]))
