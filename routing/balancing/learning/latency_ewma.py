"""Response time of a replica, as EWMA or peak EWMA, for strategies that go by that and not by work.

Kept only while such a strategy is in force, one rule at a time; what was learned stays with the replica
when the strategy changes, and goes stale by its age alone.

Theory. *Mean*: two sums, seconds and responses, each decayed as ``e^(−Δt/τ)``. Beside them stands a prior
worth two responses, so that the mean of an idle replica drifts back to what is expected of it. *Peak*: a
slower response is taken at once; a faster one pulls the peak down by the time since the last one. An idle
replica's peak drifts to what is expected.

What is expected of a replica is its learned speed (:mod:`routing.balancing.learning.learned_speed`) times the
fleet's mean request, or the median of the others' where nothing has been learned of it. It leaves weights
out: strategies divide by them. So a change of strategy starts from what is known, and a fleet of new
replicas starts with all alike.

Source: Finagle's and Linkerd's peak EWMA; time-decayed averages as in ``learned_speed``. The workers of a
host show each other what they have learned, and add it up or take the highest.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from statistics import median
from typing import ClassVar

from routing.balancing.learning import learned_speed
from routing.balancing.learning.shared_evidence import exchange_evidence
from routing.balancing.replica.learned_state import UNKNOWN_BY_LOAD, LatencyTail
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell


class LatencyTracker(ABC):
    """What one worker keeps of one fleet's responses, by one rule. ``tau_s``: its memory."""

    __slots__ = ("_least_tau_s", "tau_s")
    passing: ClassVar[bool] = False
    """Whether it learns from streams as they pass, rather than when they have ended."""

    def __init__(self, tau_s: float) -> None:
        self._least_tau_s = self.tau_s = tau_s

    @abstractmethod
    def learn(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        """One response, or what a failure counts as. ``work``: its estimate."""

    def introduce(self, replica: Replica) -> None:
        """A new one begins at what is expected of the others."""
        return

    # On the slow timer: `is_due`, then `look` at all replicas and `renew` all, some at a time.

    @abstractmethod
    def is_due(self, mean_s: float, now: float) -> bool:
        """Whether the replicas are to be looked at and renewed now. ``mean_s``: the fleet's mean response."""

    def look(self, replicas: Sequence[Replica], expected: Iterable[float | None], now: float) -> None:
        """Take note of what the replicas are compared by. ``expected``: seconds that a mean request takes,
        one a replica; ``None``: nothing is known of it."""
        return

    def compare(self) -> None:
        """All have been looked at."""
        return

    @abstractmethod
    def renew(self, replicas: Sequence[Replica], now: float) -> None:
        """Bring the readings up to date, in the order in which the replicas were looked at."""

    def exchange(self, replicas: Sequence[Replica], now: float) -> None:
        """On the slow timer, where there are other workers: show them what was learned, and take theirs."""
        return

    def _remember(self, mean_s: float) -> None:
        self.tau_s = max(self._least_tau_s, learned_speed.TAU_IN_ANSWERS * mean_s)


class ResponseTime(LatencyTracker):
    """Keeps ``Replica.answer_s``."""

    __slots__ = ("_expected", "_known", "_otherwise")

    def __init__(self, tau_s: float) -> None:
        super().__init__(tau_s)
        self._known: list[float | None] = []
        self._otherwise = 1.0
        """What is expected where nothing is known."""
        self._expected: Iterator[float] = iter(())
        """Of those that are still to be renewed: what is expected."""

    def introduce(self, replica: Replica) -> None:
        replica.answer_s = self._otherwise

    def is_due(self, mean_s: float, now: float) -> bool:
        self._remember(mean_s)
        self._known = []
        return True

    def look(self, replicas: Sequence[Replica], expected: Iterable[float | None], now: float) -> None:
        self._known += expected

    def compare(self) -> None:
        """Of those of which nothing is known the median is expected; 1 while nothing is known of any."""
        known, self._known = self._known, []
        found = [seconds for seconds in known if seconds is not None]
        self._otherwise = otherwise = median(found) if found else 1.0
        self._expected = iter([otherwise if seconds is None else seconds for seconds in known])

    def renew(self, replicas: Sequence[Replica], now: float) -> None:
        for replica, seconds in zip(replicas, self._expected, strict=False):
            replica.answer_s = self._reading(replica, seconds, now)

    @abstractmethod
    def _reading(self, replica: Replica, expected: float, now: float) -> float:
        """The response time at ``now``."""


class MeanLatency(ResponseTime):
    """Time-decayed mean."""

    __slots__ = ()

    def learn(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        replica.answer_s = learned_speed.learn(replica.latency_memory.evidence, seconds, 1.0, now, self.tau_s)

    def exchange(self, replicas: Sequence[Replica], now: float) -> None:
        for replica in replicas:
            if replica.cells is not None:
                exchange_evidence(
                    replica.cells, cell.ANSWER_SECONDS, replica.latency_memory.evidence, now, self.tau_s
                )

    def _reading(self, replica: Replica, expected: float, now: float) -> float:
        known = replica.latency_memory.evidence
        known.prior_units = learned_speed.PRIOR_REQUESTS + known.peer_units
        known.prior_seconds = learned_speed.PRIOR_REQUESTS * expected + known.peer_seconds
        return learned_speed.estimate(known, now, self.tau_s)


class PeakLatency(ResponseTime):
    """Up at once, down slowly."""

    __slots__ = ()

    def learn(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        peak = replica.latency_memory.peak_s
        if seconds < peak:
            seconds += (peak - seconds) * exp((replica.latency_memory.peak_at - now) / self.tau_s)
        replica.latency_memory.peak_s = replica.answer_s = seconds
        replica.latency_memory.peak_at = now

    def exchange(self, replicas: Sequence[Replica], now: float) -> None:
        """The highest of the host's peaks is every worker's."""
        for replica in replicas:
            cells = replica.cells
            if cells is None:
                continue
            view, own = cells.view, cells.own
            view[own + cell.PEAK_SECONDS], view[own + cell.PEAK_AT] = (
                replica.latency_memory.peak_s,
                replica.latency_memory.peak_at,
            )
            highest = self._left(replica.latency_memory.peak_s, replica.latency_memory.peak_at, now)
            for sibling in cells.siblings:
                peak, at = view[sibling + cell.PEAK_SECONDS], view[sibling + cell.PEAK_AT]
                if at > replica.ejection.returned_at and (left := self._left(peak, at, now)) > highest:
                    replica.latency_memory.peak_s, replica.latency_memory.peak_at, highest = peak, at, left

    def _left(self, peak: float, at: float, now: float) -> float:
        return peak * exp(min(0.0, at - now) / self.tau_s) if at else 0.0

    def _reading(self, replica: Replica, expected: float, now: float) -> float:
        if not replica.latency_memory.peak_at:
            return expected
        peak = replica.latency_memory.peak_s
        if replica.in_flight:
            # Somebody is trying it: what it is like is about to be known, silence is no good news.
            return peak
        return expected + (peak - expected) * exp((replica.latency_memory.peak_at - now) / self.tau_s)


def forget(replica: Replica) -> None:
    """For a replica that returns from ejection: it begins at what is expected of it."""
    learned_speed.forget(replica.latency_memory.evidence)
    replica.latency_memory.peak_s = replica.latency_memory.peak_at = 0.0
    replica.latency_memory.tail, replica.favour = LatencyTail(), 1.0
    replica.speed_by_load = UNKNOWN_BY_LOAD


def expected_seconds(
    replicas: Sequence[Replica], now: float, tau: float, mean_work: float, least_units: float
) -> list[float | None]:
    """Seconds that a request of mean work should take at each; ``None``: nothing is known of it."""
    return [
        replica.seconds_per_work * mean_work
        if learned_speed.units_at(replica.speed, now, tau) > least_units
        else None
        for replica in replicas
    ]
