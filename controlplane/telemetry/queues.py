"""Queue of one fleet over all live workers: waiting requests, waits and refusals. Pure."""

from collections import deque
from dataclasses import dataclass, field

from controlplane.telemetry.deltas import QueueDelta
from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.window import Window
from routing.contract.telemetry import FleetCounters


class QueueWindow:
    """Requests that waited or were refused less than WINDOW_S seconds ago, summed."""

    __slots__ = ("_refusals", "_short_since", "cold", "full", "late", "waits")

    def __init__(self) -> None:
        self._refusals: deque[tuple[float, QueueDelta]] = deque()
        self._short_since: float | None = None
        self.waits = Window()
        """Requests that had to wait, and how long those waited which found a slot."""
        self.full = 0
        self.late = 0
        self.cold = 0

    def add(self, now: float, delta: QueueDelta) -> None:
        """Count what happened up to ``now`` (seconds, monotonic, not before the last call's)."""
        self.waits.add(now, delta.queued, 0, delta.waited)
        if delta.full or delta.late or delta.cold:
            self._refusals.append((now, delta))
            self.full += delta.full
            self.late += delta.late
            self.cold += delta.cold

    def short_for_s(self, short: bool, now: float) -> float:
        """For how long slots have been short, without a break that any call saw; ``short``: whether they
        are now."""
        if not short:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        return now - self._short_since if self._short_since is not None else 0.0

    def expire(self, now: float) -> None:
        """Forget what was added WINDOW_S seconds ago or earlier."""
        self.waits.expire(now)
        while self._refusals and self._refusals[0][0] <= now - WINDOW_S:
            _, delta = self._refusals.popleft()
            self.full -= delta.full
            self.late -= delta.late
            self.cold -= delta.cold

    def __bool__(self) -> bool:
        return bool(self._refusals or self.waits or self._short_since is not None)


@dataclass(slots=True)
class QueueNumbers:
    """Rates per second and waits in seconds over the last WINDOW_S seconds."""

    waiting: int = 0
    oldest_wait_s: float = 0.0
    proxies: set[str] = field(default_factory=set)
    """Those that route for the fleet; each has a queue of its own."""
    queued_per_s: float = 0.0
    full_per_s: float = 0.0
    late_per_s: float = 0.0
    cold_per_s: float = 0.0
    p50_s: float | None = None
    p99_s: float | None = None
    short_for_s: float = 0.0
    """For how long requests have waited, or been refused, without a break."""

    @property
    def refuses(self) -> bool:
        """Whether requests were refused in the window because no slot was free in time."""
        return bool(self.full_per_s or self.late_per_s)

    def add(self, worker: str, counters: FleetCounters) -> None:
        """One worker's part. ``worker``: ``host/parent pid/index``."""
        self.waiting += counters.waiting
        self.oldest_wait_s = max(self.oldest_wait_s, counters.oldest_wait_s)
        self.proxies.add(worker.rpartition("/")[0])

    def read(self, window: QueueWindow, now: float) -> None:
        """Copy a window's numbers, and note whether slots are short now."""
        self.queued_per_s = window.waits.requests / WINDOW_S
        self.full_per_s = window.full / WINDOW_S
        self.late_per_s = window.late / WINDOW_S
        self.cold_per_s = window.cold / WINDOW_S
        self.p50_s, self.p99_s = window.waits.quantile(0.5), window.waits.quantile(0.99)
        self.short_for_s = window.short_for_s(self.waiting > 0 or self.refuses, now)
