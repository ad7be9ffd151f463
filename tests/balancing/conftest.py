"""Fleets, pools and simulated servers for the balancing half. No clocks: time is always an argument."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from routing.admission import Admission
from routing.attempt import Attempt
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.outcome import Outcome
from routing.policies.waiting_line import Ticket
from routing.pool import ANY, CALLED, Pool
from routing.shared_counts import SharedCounts

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
        replicas: int | list[dict[str, Any]] = 2, shared: SharedCounts | None = None, **policy: Any
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


class Server:
    """One simulated replica: so many slots, a speed, and a queue in order of arrival."""

    def __init__(self, speed: float, slots: int) -> None:
        self.speed = speed
        self.free = slots
        self.queue: deque[tuple[Attempt, float]] = deque()


class Arrival:
    """One request of a simulation: it waits in the pool's line where no replica has a place that it wants."""

    def __init__(self, simulation: "Simulation", seconds: float, work: float, now: float) -> None:
        self.simulation = simulation
        self.seconds = seconds
        self.work = work
        self.came = now
        self.ticket: Ticket

    def arrive(self) -> None:
        found = self.simulation.pool.begin(self.work, self.came)
        if isinstance(found, Attempt):
            self.simulation.start(found, self, self.came)
            return
        self.ticket = Ticket(self, 1, self.came, self.came + found.waits_s, self.work)
        assert self.simulation.pool.admission.join(self.ticket, found.wanted, self.came) is None

    def admit(self, now: float, patient: bool) -> bool:
        pool = self.simulation.pool
        turn = CALLED if patient else ANY
        found = pool.admission.look(self.ticket, lambda: pool.begin(self.work, now, (), turn))
        if not isinstance(found, Attempt):
            return False
        pool.admission.found(self.ticket, now)
        self.simulation.start(found, self, now)
        return True

    def late(self, now: float) -> None:
        raise AssertionError("nobody waits that long")

    displaced = late


class Simulation:
    """Requests arrive at a pool (Poisson), are served by servers, and are settled as they end."""

    def __init__(self, pool: Pool, servers: dict[str, Server], seed: int) -> None:
        self.pool = pool
        self.servers = servers
        self.rng = Random(seed)
        self.picked: Counter[str] = Counter()
        self.latencies: list[float] = []
        self._ends: list[tuple[float, int, Attempt]] = []
        self._count = 0
        self._came: dict[Attempt, float] = {}
        self._soon = False
        pool.admission.caller = self

    def run(
        self,
        rate: float,
        until: float,
        sizes: Callable[[Random], tuple[float, float]],
        begin: float = 1.0,
        events: dict[float, Callable[[], None]] | None = None,
    ) -> None:
        """``sizes`` draws (seconds at speed 1, estimated work); ``events`` happen at their times."""
        pending = sorted((events or {}).items())
        for now in self._arrivals(rate, begin, until):
            while pending and pending[0][0] <= now:
                pending.pop(0)[1]()
            self._finish(now)
            seconds, work = sizes(self.rng)
            Arrival(self, seconds, work, now).arrive()
            self._call(now)
        self._finish(float("inf"))

    def start(self, attempt: Attempt, arrival: "Arrival", now: float) -> None:
        self.picked[attempt.replica.name] += 1
        self._came[attempt] = arrival.came
        self._serve(attempt, arrival.seconds, now)

    def p99(self) -> float:
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]

    def mean(self) -> float:
        return sum(self.latencies) / len(self.latencies)

    def _arrivals(self, rate: float, begin: float, until: float) -> Iterator[float]:
        now = begin
        while (now := now + self.rng.expovariate(rate)) < until:
            yield now

    def _serve(self, attempt: Attempt, seconds: float, now: float) -> None:
        server = self.servers[attempt.replica.name]
        if not server.free:
            server.queue.append((attempt, seconds))
            return
        server.free -= 1
        self._count += 1
        heapq.heappush(self._ends, (now + seconds / server.speed, self._count, attempt))

    def _finish(self, until: float) -> None:
        while self._ends and self._ends[0][0] <= until:
            now, _, attempt = heapq.heappop(self._ends)
            attempt.settle(Outcome.SUCCESS, now)
            self.latencies.append(now - self._came.pop(attempt))
            server = self.servers[attempt.replica.name]
            server.free += 1
            if server.queue:
                self._serve(*server.queue.popleft(), now)
            self._call(now)

    # Who calls those that wait in the pool's line (routing.admission.Caller).

    def look_soon(self, admission: Admission) -> None:
        self._soon = True

    def wake(self, worker: int) -> None:
        raise AssertionError("there is one worker")

    def _call(self, now: float) -> None:
        while self._soon:
            self._soon = False
            self.pool.admission.serve(now)


@pytest.fixture
def simulate() -> Callable[..., Simulation]:
    """``simulate(pool, [1.0, 2.0], slots=4, seed=7)``: a simulation with one server a replica."""

    def build(pool: Pool, speeds: list[float], slots: int = 4, seed: int = 7) -> Simulation:
        servers = {r.name: Server(speed, slots) for r, speed in zip(pool.replicas, speeds, strict=True)}
        return Simulation(pool, servers, seed)

    return build
