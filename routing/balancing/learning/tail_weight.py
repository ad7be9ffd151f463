"""Tail latency as weight: how slow a replica's slowest responses are (p99), as a factor: ``Replica.favour``.

Theory. The seconds per unit of work of each response are counted in buckets 5 % wide, in this window and the
one before it. Their 99th percentile, times the replica's weight, is what a replica of weight 1 would show.
The pool's median of those, over the replica's own, is the base of its *favour*. Dividing by work takes out
the mix of requests, the weight takes out the expected speed of the hardware, and the median takes out what
slows all replicas alike.

This is a control loop with dead time: a response shows the load at the time when its request was sent. Near
saturation a tenth more load may double the percentile. Weights in full proportion to it would swing from one
replica to the next, and cost more than they save. So they are damped. Of a ratio only what is beyond
:data:`SPARED` counts, within a quarter and four times. A favour falls with a time constant of
:data:`FALLS_IN_S` and rises with :data:`RISES_IN_S`. Few responses count in part: the logarithm of the ratio
counts ``n / (n + 50)``. So a replica that is hardly asked any more goes back to its weight as its responses
grow old, and is tried again.

Source: weights that follow latency as in the "latency-aware" policy of Cassandra's drivers and F5's
observed modes; percentiles by counts in logarithmic buckets (:mod:`routing.contract.sketch`); gains and
times by our own simulation.

Failure mode: among fewer than a hundred responses the percentile is the slowest of them. So one failure,
which counts as a slow response, costs a replica of a quiet fleet much of its weight for a while.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import exp, floor, log
from statistics import median

from routing.balancing.learning.latency_ewma import LatencyTracker
from routing.balancing.replica.learned_state import LatencyTail
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell

SPARED = 2.0
BOUND = 4.0
FALLS_IN_S = 0.5
RISES_IN_S = 5.0
MOVES_EVERY_S = 0.25
DOUBT = 50.0
"""So many responses count as much as knowing nothing does."""
_STEPS = 20.0
"""Buckets an e-fold."""
_LEAST = 1e-12


class TailWeight(LatencyTracker):
    """Keeps ``Replica.favour`` of one fleet in one worker."""

    __slots__ = ("_aims", "_elapsed", "_found", "_moved_at")

    def __init__(self, tau_s: float) -> None:
        super().__init__(tau_s)
        self._moved_at: float | None = None
        self._elapsed = 0.0
        """Between the last two moves."""
        self._found: list[tuple[float, int]] = []
        self._aims: Iterator[float] = iter(())
        """Of those that are still to be renewed: logarithm of where each one's favour should go."""

    def learn(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        bucket = floor(log(max(seconds / work, _LEAST)) * _STEPS)
        counts = replica.latency_memory.tail.newer
        counts[bucket] = counts.get(bucket, 0) + 1

    def is_due(self, mean_s: float, now: float) -> bool:
        if self._moved_at is None:
            self._moved_at = now
        elapsed = now - self._moved_at
        if elapsed < MOVES_EVERY_S:
            return False
        self._moved_at, self._elapsed = now, elapsed
        self._remember(mean_s)
        self._found = []
        return True

    def look(self, replicas: Sequence[Replica], expected: Iterable[float | None], now: float) -> None:
        for replica in replicas:
            slowest, count = _slowest(replica.latency_memory.tail, now, self.tau_s)
            if replica.cells is not None:
                slowest, count = _of_all(replica, slowest, count, now, self.tau_s)
            self._found.append((slowest + log(replica.spec.weight or 1.0), count))

    def compare(self) -> None:
        found, self._found = self._found, []
        middle = median([slowest for slowest, count in found if count] or [0.0])
        self._aims = iter([_damped(middle - slowest) * count / (count + DOUBT) for slowest, count in found])

    def renew(self, replicas: Sequence[Replica], now: float) -> None:
        for replica, aim in zip(replicas, self._aims, strict=False):
            favour = log(replica.favour)
            settles_in_s = RISES_IN_S if aim > favour else FALLS_IN_S
            replica.favour = exp(favour + (aim - favour) * (1 - exp(-self._elapsed / settles_in_s)))


def _damped(ratio: float) -> float:
    """Logarithms in and out."""
    favour = min(log(BOUND), max(0.0, abs(ratio) - log(SPARED)))
    return favour if ratio > 0 else -favour


def _of_all(replica: Replica, slowest: float, count: int, now: float, window_s: float) -> tuple[float, int]:
    """Show this worker's, and have the host's: the mean of all workers', by their responses."""
    cells = replica.cells
    assert cells is not None
    cells.write(cell.SLOWEST, slowest)
    cells.write(cell.SLOWEST_OF, count)
    cells.write(cell.SLOWEST_AT, now)
    view, weighed, answers = cells.view, slowest * count, count
    for sibling in cells.siblings:
        # One that is not renewed any more is of another strategy's time.
        if now - view[sibling + cell.SLOWEST_AT] < window_s:
            theirs = int(view[sibling + cell.SLOWEST_OF])
            weighed += view[sibling + cell.SLOWEST] * theirs
            answers += theirs
    return (weighed / answers, answers) if answers else (0.0, 0)


def _slowest(tail: LatencyTail, now: float, window_s: float) -> tuple[float, int]:
    """Logarithm of the 99th percentile, and of how many responses; begins a new window when one is over."""
    age = now - tail.began
    if age >= window_s:
        tail.older = tail.newer if age < 2 * window_s else {}
        tail.newer, tail.began = {}, now
    newer, older = tail.newer, tail.older
    count = sum(newer.values()) + sum(older.values())
    above = count // 100
    for bucket in sorted({*newer, *older}, reverse=True):
        above -= newer.get(bucket, 0) + older.get(bucket, 0)
        if above < 0:
            return (bucket + 0.5) / _STEPS, count
    return 0.0, 0
