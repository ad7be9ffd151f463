"""Simulation result of one strategy: latency percentiles, and how requests ended, as clients saw them."""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from statistics import fmean

from routing.contract.telemetry import FleetCounters
from routing.simulator.requests import ANSWERED, Request


class Result:
    """One strategy's run. Latencies are of requests that were answered, in seconds, ascending."""

    def __init__(
        self, strategy: str, requests: Sequence[Request], first_token_s: float | None = None
    ) -> None:
        """``first_token_s``: the fleet's objective."""
        self.strategy = strategy
        self.first_token_s = first_token_s
        self.requests = requests
        self.latencies = sorted(request.latency_s for request in requests if request.end == ANSWERED)
        self.ends = Counter(request.end for request in requests)
        self.picked = Counter(request.replica for request in requests if request.replica)
        """By the replica that each was last sent to."""
        self.events = 0
        self.wall_s = 0.0
        """What the run itself took."""
        self.counters: list[FleetCounters] = []
        """What each proxy's workers have counted, as in their telemetry; empty without a proxy."""

    def quantile(self, share: float) -> float:
        return quantile(self.latencies, share)

    @property
    def mean_s(self) -> float:
        return fmean(self.latencies) if self.latencies else 0.0

    @property
    def not_answered(self) -> int:
        return len(self.requests) - self.ends[ANSWERED]

    @property
    def peak_in_flight(self) -> int:
        """The most requests that one replica had at once."""
        changes = sorted(
            (at_s, change, request.replica)
            for request in self.requests
            if request.replica
            for at_s, change in ((request.sent_s, 1), (request.ended_s, -1))
        )
        there: Counter[str] = Counter()
        peak = 0
        for _, change, replica in changes:
            there[replica] += change
            peak = max(peak, there[replica])
        return peak

    def since(self, from_s: float) -> "Result":
        """Of the requests that arrived from this second on."""
        requests = [request for request in self.requests if request.at_s >= from_s]
        later = Result(self.strategy, requests, self.first_token_s)
        later.events, later.wall_s = self.events, self.wall_s
        later.counters = self.counters
        return later

    def shares(self, names: Sequence[str]) -> dict[str, float]:
        """Of the requests that were sent, which share each of these replicas got."""
        sent = self.picked.total()
        return {name: self.picked[name] / sent if sent else 0.0 for name in names}

    def figures(self) -> dict[str, str | int | float]:
        """As they are written in JSON: latencies of what was answered, in seconds."""
        return {
            "strategy": self.strategy,
            "p50_s": self.quantile(0.50),
            "p95_s": self.quantile(0.95),
            "p99_s": self.quantile(0.99),
            "mean_s": self.mean_s,
            "requests": len(self.requests),
            "not_answered": self.not_answered,
        }


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below or at which this share of all lies; 0 of none."""
    if not ascending:
        return 0.0
    return ascending[max(0, ceil(share * len(ascending)) - 1)]
