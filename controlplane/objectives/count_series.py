"""Count series: cumulative counts of good and of all requests of one objective, over up to 90 days. Pure.

Points are 10 s apart for the last 24 h and 5 min before that. They are cumulative, so that any window is the
difference of two points: no sum over points, no rounding, and what was counted while nobody looked is in the
window in which it was seen.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

FINE_S = 10.0
FINE_REACH_S = 86_400.0
COARSE_S = 300.0
REACH_S = 90 * 86_400.0
THIN_EVERY = 360
"""Points: an hour's."""


class CountPoint(NamedTuple):
    """At one time: how many were good, of how many, since the series began."""

    at: float
    """Unix seconds."""
    good: int
    total: int


class WindowCount(NamedTuple):
    """What a window holds."""

    good: int
    total: int
    covered_s: float
    """How much of the window the series reaches back."""

    @property
    def bad(self) -> int:
        return self.total - self.good

    @property
    def bad_share(self) -> float:
        """0 to 1; of nothing, 0."""
        return self.bad / self.total if self.total else 0.0


NOTHING_COUNTED = WindowCount(0, 0, 0.0)


class CountSeries:
    """Grows at its end; thinned and shortened at its beginning as it does."""

    def __init__(self, points: Iterable[CountPoint] = ()) -> None:
        self.points: list[CountPoint] = list(points)
        self._added = 0

    def add(self, at: float, good: int, total: int) -> None:
        """More requests, counted until ``at``: of ``total``, ``good`` met the objective. A time that is not
        after the last one counts as that one; the last is open until FINE_S after the one before."""
        if not self.points:
            # Where the counting begins; else its first window would be of no length.
            self.points.append(CountPoint(at - FINE_S, 0, 0))
        last = self.points[-1]
        point = CountPoint(max(at, last.at), last.good + min(good, total), last.total + total)
        if len(self.points) > 1 and (last.at - self.points[-2].at < FINE_S or point.at == last.at):
            self.points[-1] = point
        else:
            self.points.append(point)
            self._thin(point.at)

    def window(self, now: float, seconds: float) -> WindowCount:
        """What was counted in the last ``seconds``, as far as the series reaches."""
        if not self.points:
            return NOTHING_COUNTED
        start = now - seconds
        index = bisect_right(self.points, start, key=lambda point: point.at) - 1
        first, last = self.points[max(index, 0)], self.points[-1]
        covered = min(seconds, now - first.at)
        return WindowCount(last.good - first.good, last.total - first.total, max(covered, 0.0))

    def _thin(self, now: float) -> None:
        """Keep one point of each COARSE_S of what is older than FINE_REACH_S, and nothing beyond REACH_S."""
        self._added += 1
        if self._added < THIN_EVERY:
            return
        self._added = 0
        edge = bisect_right(self.points, now - FINE_REACH_S, key=lambda point: point.at)
        kept: list[CountPoint] = []
        for point in self.points[:edge]:
            if point.at < now - REACH_S:
                continue
            if kept and int(kept[-1].at // COARSE_S) == int(point.at // COARSE_S):
                kept[-1] = point  # the last of each, so that a window that begins there is exact
            else:
                kept.append(point)
        self.points[:edge] = kept
