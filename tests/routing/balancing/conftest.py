"""Fleets, pools and simulated servers for the balancing half. No clocks: time is always an argument."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from statistics import fmean
from typing import Any

import msgspec
import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.shared.shm_counters import SharedCounters
from routing.simulator.arrivals import times
from routing.simulator.engine import Engine
from routing.simulator.fixed_slots import FixedSlots
from routing.simulator.nodes import Node
from routing.simulator.proxies import SimulatedProxy
from routing.simulator.requests import ANSWERED, Request
from routing.simulator.results import quantile

MakeSnapshot = Callable[..., FleetSnapshot]


def spec_of(number: int, **changes: Any) -> ReplicaSpec:
    """Replica ``r<number>``; fields as given, the rest by default."""
    fields: dict[str, Any] = {
        "uid": f"uid-{number}",
        "name": f"r{number}",
        "url": f"http://10.0.0.{number + 1}:8000",
    }
    return ReplicaSpec(**(fields | changes))


@pytest.fixture
def make_spec() -> Callable[..., ReplicaSpec]:
    return spec_of


@pytest.fixture
def make_snapshot() -> MakeSnapshot:
    """``make_snapshot([{"weight": 2.0}, {}], strategy="round_robin")``: one dict a replica, or how many."""

    def make(
        replicas: int | list[dict[str, Any]] = 2, version: int = 1, epoch: int = 1, **policy: Any
    ) -> FleetSnapshot:
        given: list[dict[str, Any]] = [{}] * replicas if isinstance(replicas, int) else replicas
        return FleetSnapshot(
            epoch=epoch,
            version=version,
            revision=1,
            name="digits",
            protocol="generic",
            policy=msgspec.convert(policy, Policy),
            replicas=[spec_of(number, **changes) for number, changes in enumerate(given)],
        )

    return make


@pytest.fixture
def make_pool(make_snapshot: MakeSnapshot) -> Callable[..., Pool]:
    """As make_snapshot, but the pool. Seed 1, so that a test's choices are the same every time."""

    def make(
        replicas: int | list[dict[str, Any]] = 2, shared: SharedCounters | None = None, **policy: Any
    ) -> Pool:
        return Pool(make_snapshot(replicas, **policy), shared, Random(1))

    return make


@pytest.fixture
def send() -> Callable[..., str]:
    """Begin and settle one request at once; returns the replica's name, or the refusal's message."""

    def one(pool: Pool, now: float, outcome: Outcome = Outcome.SUCCESS, took: float = 0.0) -> str:
        attempt = pool.begin(1.0, now)
        if not isinstance(attempt, Attempt):
            return attempt.message
        attempt.settle(outcome, now + took)
        return attempt.replica.name

    return one


@pytest.fixture
def fail(send: Callable[..., str]) -> Callable[..., None]:
    """Let one replica fail so many times in a row, by settling attempts until it was picked that often."""

    def failures(pool: Pool, name: str, times: int, now: float, outcome: Outcome = Outcome.FAILED) -> None:
        seen = 0
        for _ in range(1000):
            attempt = pool.begin(1.0, now)
            assert isinstance(attempt, Attempt)
            mine = attempt.replica.name == name
            attempt.settle(outcome if mine else Outcome.SUCCESS, now + 0.01)
            seen += mine
            if seen == times:
                return
        raise AssertionError(f"{name} was picked {seen} times only")

    return failures


class Simulation:
    """Requests arrive at a pool (Poisson), are served by servers with slots, and are settled as they end."""

    def __init__(self, pool: Pool, speeds: list[float], slots: int, seed: int) -> None:
        self.rng = Random(seed)
        self.engine = Engine()
        named = list(zip(pool.replicas, speeds, strict=True))
        self.servers = {replica.name: FixedSlots(self.engine, speed, slots) for replica, speed in named}
        nodes = {one.uid: Node(self.engine, one.name, self.servers[one.name]) for one in pool.replicas}
        self._proxy = SimulatedProxy(self.engine, pool, nodes)
        self._requests: list[Request] = []

    def run(
        self,
        rate: float,
        until: float,
        sizes: Callable[[Random], tuple[float, float]],
        begin: float = 1.0,
        events: dict[float, Callable[[], None]] | None = None,
    ) -> None:
        """``sizes`` draws (seconds at speed 1, estimated work); ``events`` happen at their times."""
        for at, event in (events or {}).items():
            self.engine.at(at, event)
        for at in times(self.rng, rate, until - begin):
            seconds, work = sizes(self.rng)
            request = Request(begin + at, seconds, estimate=work)
            self._requests.append(request)
            self.engine.at(request.at_s, partial(self._proxy.arrive, request))
        self.engine.run()
        assert all(request.end == ANSWERED for request in self._requests)

    @property
    def picked(self) -> Counter[str]:
        return Counter(request.replica for request in self._requests)

    def p99(self) -> float:
        return quantile(sorted(request.latency_s for request in self._requests), 0.99)

    def mean(self) -> float:
        return fmean(request.latency_s for request in self._requests)


@pytest.fixture
def simulate() -> Callable[..., Simulation]:
    """``simulate(pool, [1.0, 2.0], slots=4, seed=7)``: a simulation with one server a replica."""

    def build(pool: Pool, speeds: list[float], slots: int = 4, seed: int = 7) -> Simulation:
        return Simulation(pool, speeds, slots, seed)

    return build
