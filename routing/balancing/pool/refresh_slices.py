"""Refresh slices: when the steps of a large pool's refresh cycle are due, and the counts of sibling workers.

Theory. A cycle takes a tenth of a second, and longer from a thousand replicas on, so that it is a few percent
of a worker's time. Its steps are spread evenly over that. The requests that come do them: each does those
that are due, and few at once. Where requests are so rare that cycles would not come to their end, the
worker's reports have the rest done, once a second and in slices as well.
"""

from collections.abc import Sequence
from math import inf

from routing.balancing.pool.refresh_cycle import RefreshCycle, Steps
from routing.balancing.replica import sibling_load
from routing.balancing.replica.state import Replica

REFRESH_S = 0.1
REFRESH_EACH_S = 100e-6
"""And that for each replica, if it is more: 0.2 s for 2,000."""
MOST_STEPS = 4
"""At once."""


class RefreshSlices:
    """Of one pool. All times are monotonic seconds."""

    def __init__(self, cycle: RefreshCycle) -> None:
        self.due = 0.0
        """When the next step is."""
        self.ended_at = -inf
        """When the last cycle ended."""
        self._cycle = cycle
        self._steps: Steps | None = None
        self._began = self._stepped = self._lasts = self._pause = 0.0

    @property
    def under_way(self) -> bool:
        """Whether a cycle has begun that has not ended."""
        return self._steps is not None

    def begin(self, eligible: Sequence[Replica], now: float) -> None:
        """Begin a cycle. ``eligible``: as for :meth:`RefreshCycle.steps`."""
        self._steps = self._cycle.steps(eligible)
        next(self._steps)
        self._began = self._stepped = now
        self._lasts = max(REFRESH_S, REFRESH_EACH_S * self._cycle.replicas)
        self._pause = self._lasts / self._cycle.number_of_steps()

    def advance(self, now: float) -> bool:
        """Do steps that are due. Returns whether the cycle has ended with them."""
        due = min(MOST_STEPS, 1 + int((now - self._stepped) / self._pause))
        self._stepped, self.due = now, inf  # a request that begins within a step does none
        assert self._steps is not None
        for _ in range(due):
            try:
                self._steps.send(now)
            except StopIteration:
                self.ended(now)
                self.due = max(now, self._began + self._lasts)
                return True
        self.due = now + self._pause
        return False

    def ended(self, now: float) -> None:
        """A cycle has ended, here or as a whole."""
        self._steps, self.due, self.ended_at = None, now + REFRESH_S, now

    def is_late(self, now: float) -> bool:
        """Whether the last cycle ended so long ago that requests do not see to the next."""
        return now - self.ended_at >= REFRESH_S + self._lasts

    def drop(self) -> None:
        """There are other replicas: begin anew."""
        self._steps, self.due = None, 0.0


class RollingCounts:
    """The counts of sibling workers at a large pool's replicas, read some at a time, as often as all of them
    would be at once."""

    SOME = 64
    MOST = 1024
    """Cells of siblings that are read at once at most."""

    def __init__(self) -> None:
        self.due = inf
        """When the next are to be read; never, without siblings."""
        self._at = 0
        self._read_at = 0.0

    def read_some(self, replicas: Sequence[Replica], siblings: int, now: float) -> bool:
        """Read the next ones, as many as are due. Returns whether that ends a round."""
        late = int((now - self._read_at) / sibling_load.COUNTS_EACH_S)
        count = min(len(replicas), max(self.SOME, min(late, self.MOST // siblings)))
        some = replicas[self._at : self._at + count]
        self._at += count
        self._read_at, self.due = now, now + self.SOME * sibling_load.COUNTS_EACH_S
        sibling_load.read_counts(some)
        if self._at < len(replicas):
            return False
        self._at = 0
        return True
