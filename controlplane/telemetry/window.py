"""Sliding window: counts and latencies of the last seconds, as a running sum. Pure: ``now`` is an argument.

Percentiles of the last WINDOW_S seconds are read from the sum of all sketches that arrived in that
time; they are never averages of percentiles.
"""

from collections import deque
from collections.abc import Mapping

from controlplane.telemetry.frames import WINDOW_S
from routing.contract import sketch


class Window:
    """What was added less than WINDOW_S seconds ago, summed."""

    __slots__ = ("_entries", "errors", "latency", "requests")

    def __init__(self) -> None:
        self._entries: deque[tuple[float, int, int, Mapping[int, int]]] = deque()
        self.requests = 0
        self.errors = 0
        self.latency: dict[int, int] = {}
        """Sketch: bucket → count; never holds a zero."""

    def add(self, now: float, requests: int, errors: int, latency: Mapping[int, int]) -> None:
        """Count what happened up to ``now`` (seconds, monotonic, not before the last call's)."""
        if not (requests or errors or latency):
            return
        self._entries.append((now, requests, errors, latency))
        self.requests += requests
        self.errors += errors
        for bucket, count in latency.items():
            self.latency[bucket] = self.latency.get(bucket, 0) + count

    def expire(self, now: float) -> None:
        """Forget what was added WINDOW_S seconds ago or earlier."""
        while self._entries and self._entries[0][0] <= now - WINDOW_S:
            _, requests, errors, latency = self._entries.popleft()
            self.requests -= requests
            self.errors -= errors
            for bucket, count in latency.items():
                left = self.latency[bucket] - count
                if left:
                    self.latency[bucket] = left
                else:
                    del self.latency[bucket]

    def quantile(self, q: float) -> float | None:
        """Seconds; ``None`` when nothing finished in the window."""
        return sketch.quantile(self.latency, q)

    @property
    def error_percent(self) -> float:
        """Errors per hundred requests. Long requests can end in a later window than they began in: ≤ 100."""
        return 100 * self.errors / max(self.requests, self.errors, 1)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __repr__(self) -> str:
        return f"<Window {self.requests} requests, {self.errors} errors>"
