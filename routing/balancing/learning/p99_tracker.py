"""p99 of a fleet: how slow its slow responses are, over the last ones.

Theory. The p99 says how long a failure counts as a slow response, and when silence is a stall and not
slowness. So it must not vanish where responses are rare. A window ends after 10 s if it has 100 responses:
fewer have no 99th percentile to speak of. Before that it is read from those that there are. Where responses
are rare, the window lasts until it has as many, 10 minutes at most. A window without any response changes
nothing.
"""

from collections.abc import Iterable

from routing.balancing.replica.state import Replica
from routing.contract.sketch import Sketch, quantile, subtract

WINDOW_S = 10.0
LONGEST_S = 600.0
ENOUGH = 100


class P99Tracker:
    """One fleet's, in one worker."""

    __slots__ = ("_began", "_earlier", "_looked_at", "_sums", "p99_s")

    def __init__(self) -> None:
        self.p99_s = 0.0
        """0 while there were none."""
        self._earlier: dict[int, int] = {}
        self._began: float | None = None
        self._looked_at = 0.0
        self._sums = Sketch()

    # On the slow timer: `is_due`, then `look` at all replicas, some at a time, then `read`.

    def is_due(self, now: float) -> bool:
        """Whether a window may be over."""
        if self._began is None:
            self._began = self._looked_at = now
        if now - self._looked_at < WINDOW_S:
            return False
        self._looked_at = now
        self._sums = Sketch()
        return True

    def look(self, replicas: Iterable[Replica]) -> None:
        """Add up their responses."""
        for replica in replicas:
            self._sums.add_counts(replica.latency)

    def read(self, now: float) -> None:
        """All have been looked at."""
        sums = self._sums
        counts = subtract(sums.counts, self._earlier)
        self.p99_s = quantile(counts, 0.99) or self.p99_s
        assert self._began is not None
        if now - self._began >= LONGEST_S or sum(counts.values()) >= ENOUGH:
            self._earlier, self._began = sums.counts, now
