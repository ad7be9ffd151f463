"""Token windows: streams of the last seconds, of a fleet or a replica, and how long they took. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.telemetry.window import Window


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; ``None``: nothing was measured within the window."""

    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None


NOTHING = Percentiles()


def percentiles(window: Window | None) -> Percentiles:
    """Of the durations in a window; ``None``: there is no window."""
    if not window:
        return NOTHING
    return Percentiles(window.quantile(0.5), window.quantile(0.95), window.quantile(0.99))


class TokenWindows:
    """Seconds to the first token and between tokens, less than WINDOW_S seconds ago."""

    __slots__ = ("between", "first")

    def __init__(self) -> None:
        self.first = Window()
        self.between = Window()

    def add(self, now: float, first: Mapping[int, int], between: Mapping[int, int]) -> None:
        """Count what happened up to ``now`` (seconds, monotonic, not before the last call's)."""
        self.first.add(now, 0, 0, first)
        self.between.add(now, 0, 0, between)

    def expire(self, now: float) -> None:
        """Forget what was added WINDOW_S seconds ago or earlier."""
        self.first.expire(now)
        self.between.expire(now)

    def __bool__(self) -> bool:
        return bool(self.first or self.between)


class FailureWindow:
    """Failed attempts at a replica by outcome, or errors of a fleet by reason, less than WINDOW_S seconds
    ago."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        self._by: dict[str, Window] = {}

    def add(self, now: float, failed_by: Mapping[str, int]) -> None:
        """Count what happened up to ``now`` (seconds, monotonic, not before the last call's)."""
        for outcome, count in failed_by.items():
            self._by.setdefault(outcome, Window()).add(now, count, 0, {})

    def expire(self, now: float) -> None:
        """Forget what was added WINDOW_S seconds ago or earlier."""
        for outcome, window in list(self._by.items()):
            window.expire(now)
            if not window:
                del self._by[outcome]

    def counts(self) -> dict[str, int]:
        """Outcome → how many."""
        return {outcome: window.requests for outcome, window in sorted(self._by.items())}

    def __bool__(self) -> bool:
        return bool(self._by)
