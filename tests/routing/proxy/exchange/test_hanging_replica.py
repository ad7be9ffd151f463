"""Requests at a replica that hangs while it is ejected, over real connections: they go elsewhere."""

import asyncio
import time

import msgspec
import pytest

from routing.balancing.learning import p99_tracker
from routing.balancing.outlier import silence, starvation
from routing.contract.policy import Policy, Queue, Retries, Timeouts
from tests.routing.proxy.rig import (
    LIMIT_S,
    OK_ANSWER,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_bytes,
    answer_ok,
    until,
)

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
POLICY = Policy(
    strategy="round_robin",
    slow_start_s=0,
    retries=Retries(budget_percent=100),
    timeouts=Timeouts(connect_s=LIMIT_S),
)
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


class Clients:
    """One asks every 20 ms, whether or not the others have their answers; every answer must be a 200."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._idle: list[Client] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        while not self._stopped:
            self._asking.add(asyncio.create_task(self._ask()))
            await asyncio.sleep(0.02)

    async def _ask(self) -> None:
        client = self._idle.pop() if self._idle else await self._rig.client()
        assert (await client.ask(GET)).status == 200
        self._idle.append(client)

    async def stop(self) -> None:
        self._stopped = True
        await self._starting
        await asyncio.gather(*self._asking)


@pytest.fixture
async def fleet(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Replica]:
    """Three replicas; the fleet's p99 is known."""
    monkeypatch.setattr(p99_tracker, "WINDOW_S", 0.2)
    replicas = [await rig.replica() for _ in range(3)]
    rig.fleet(*replicas, policy=POLICY)
    pool, client = rig.table.fleets["f"], await rig.client()
    ends = time.monotonic() + LIMIT_S
    while not pool.speed.p99_s:
        assert time.monotonic() < ends
        assert (await client.ask(GET)).status == 200
        await asyncio.sleep(0.01)
    return replicas


async def test_the_probe_request_of_one_that_failed_goes_elsewhere_when_it_hangs(
    rig: Rig, fleet: list[Replica]
) -> None:
    """It would wait for its time limit, and no other probe request would be sent meanwhile."""
    bad, replica = fleet[0], rig.table.fleets["f"].replicas[0]
    bad.script = answer_bytes(ERROR)
    client = await rig.client()
    while not replica.ejection.until:
        await client.ask(POST)
    bad.script = answer_bytes(b"")
    asked = len(bad.requests)
    clients = Clients(rig)
    await until(lambda: len(bad.requests) > asked)
    bad.script = answer_ok
    await until(lambda: not replica.ejection.until)
    await clients.stop()


async def test_one_that_answers_slowly_again_is_back_though_older_requests_stay_silent(
    rig: Rig, fleet: list[Replica]
) -> None:
    """They are lost. Those that may be sent twice are answered by others; its probe request is its own."""
    bad, replica = fleet[0], rig.table.fleets["f"].replicas[0]
    bad.script = answer_bytes(b"")
    ends = time.monotonic() + LIMIT_S
    while not replica.in_flight:
        assert time.monotonic() < ends
        (await rig.client()).send(POST)
        await asyncio.sleep(0.05)
    clients = Clients(rig)
    await until(lambda: replica.ejection.until)

    async def slowly(connection: ReplicaConnection, seen: Seen) -> None:
        await asyncio.sleep(0.5)
        connection.transport.write(OK_ANSWER)

    bad.script = slowly
    await until(lambda: not replica.ejection.until)
    await clients.stop()
    assert replica.ejection.count == 1
    posts = [seen for seen in bad.requests if seen.body]
    assert replica.in_flight <= len(posts), (
        "what may not be sent twice waits, and is no load once it is given up"
    )


async def test_slots_that_lost_requests_hold_are_given_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only replica, full of requests that it never answers: one more is sent to see whether it lives."""
    monkeypatch.setattr(p99_tracker, "WINDOW_S", 0.2)
    monkeypatch.setattr(silence, "LEAST_S", 0.5)
    monkeypatch.setattr(starvation, "AFTER_SILENCE_S", 0.5)
    only = await rig.replica()
    rig.fleet(only, policy=msgspec.structs.replace(POLICY, max_concurrency=2, queue=Queue(size=0)))
    pool, client = rig.table.fleets["f"], await rig.client()
    while not pool.speed.p99_s:
        assert (await client.ask(GET)).status == 200
        await asyncio.sleep(0.01)
    replica = pool.replicas[0]
    only.script = answer_bytes(b"")
    lost = [await rig.client() for _ in range(2)]
    for waiting in lost:
        waiting.send(POST)
    await until(lambda: replica.in_flight == 2)
    only.script = answer_ok
    ends = time.monotonic() + LIMIT_S
    while (await client.ask(GET)).status != 200:
        assert time.monotonic() < ends
        await asyncio.sleep(0.02)
    most = 0
    while replica.in_flight:
        assert time.monotonic() < ends
        most = max(most, replica.in_flight)
        assert (await client.ask(GET)).status in (200, 503)
        await asyncio.sleep(0.02)
    assert most <= 3, "no more than one beside the slots"
    assert [(await client.ask(GET)).status for _ in range(50)] == [200] * 50
    assert replica.in_flight == 0
    for connection in only.connections:
        connection.transport.abort()
    for waiting in lost:
        assert (await waiting.answer()).status == 502
    assert replica.in_flight == 0
