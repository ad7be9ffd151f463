"""``X-Request-Timeout-Ms``: whatever the request waits for when its client gives up, nobody is charged."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from routing.balancing.replica.state import Replica as Routed
from routing.contract.policy import Policy, Retries, Timeouts
from tests.routing.proxy.rig import OK, Answer, Replica, ReplicaConnection, Rig, Seen, unreachable, until

HEAD = (
    b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nX-Request-Timeout-Ms: %d\r\nContent-Length: 14\r\n\r\n"
)
BODY = b'{"model": "f"}'


async def hang(connection: ReplicaConnection, seen: Seen) -> None:
    """No answer, ever."""


HELLO = b'data: {"choices": [{"text": "hello"}]}\n\n'
EVENTS = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def begin(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK + EVENTS + b"28\r\n" + HELLO + b"\r\n")


def fleet(rig: Rig, *replicas: Replica, **timeouts: float) -> None:
    # One failure would be enough for an ejection, and everything may be repeated.
    settings = Policy(
        strategy="round_robin",
        slow_start_s=0,
        timeouts=Timeouts(**timeouts),
        retries=Retries(replay_safe="always", budget_percent=100, statuses=[503]),
    )
    rig.fleet(*replicas, policy=settings, protocol="openai")


async def given_up(rig: Rig, limit_ms: int = 150) -> Answer:
    client = await rig.client()
    client.send(HEAD % limit_ms + BODY)
    return await client.answer(b"POST", limit_s=2)


def untouched(replica: Routed, cancelled: int = 1) -> None:
    """As if the replica had never been asked, but for the count of requests that were cancelled."""
    assert (replica.failed, replica.outcomes.rejected, replica.succeeded, replica.outcomes.cancelled) == (
        0,
        0,
        0,
        cancelled,
    )
    assert (replica.ejection.failures, replica.ejection.until, replica.ejection.count) == (0, 0.0, 0)
    assert (replica.ejection.windows.failed, replica.ejection.windows.succeeded) == (0, 0)
    assert (replica.speed.units, replica.speed.seconds) == (0.0, 0.0)
    assert replica.latency == {}


@pytest.fixture
async def silent(rig: Rig) -> AsyncIterator[Replica]:
    """The only replica, which does not answer. Afterwards the fleet's books say: given up, no error."""
    replica = await rig.replica()
    replica.script = hang
    fleet(rig, replica)
    yield replica
    counters = rig.table.fleets["f"].counters
    assert (counters.errors, counters.cancelled, counters.answered, counters.latency) == (0, 1, 0, {})


async def test_searching(rig: Rig, silent: Replica) -> None:
    client = await rig.client()
    client.send(HEAD % 150 + BODY[:5])
    assert (await client.answer(b"POST", limit_s=2)).status == 504
    untouched(rig.table.fleets["f"].replicas[0], cancelled=0)
    assert rig.table.fleets["f"].counters.requests == 0
    # For the fixture, which asks what the fleet has seen.
    assert (await given_up(rig)).status == 504


async def test_connecting(rig: Rig) -> None:
    with unreachable() as replica:
        fleet(rig, replica, connect_s=30)
        assert b"own time limit of 0.15 s" in (await given_up(rig)).body
        untouched(rig.table.fleets["f"].replicas[0])


async def test_waiting(rig: Rig, silent: Replica) -> None:
    assert b"own time limit of 0.15 s" in (await given_up(rig)).body
    untouched(rig.table.fleets["f"].replicas[0])


async def test_streaming(rig: Rig, silent: Replica) -> None:
    silent.script = begin
    answer = await given_up(rig)
    assert (answer.status, answer.complete) == (200, False)
    assert answer.body.startswith(HELLO)
    untouched(rig.table.fleets["f"].replicas[0])


@pytest.mark.parametrize("first", ["lost", "busy"])
async def test_retrying(rig: Rig, first: str) -> None:
    """The attempt before counts as it would have; the one that is given up does not."""
    failing, hanging = await rig.replica(), await rig.replica()

    async def fail(connection: ReplicaConnection, seen: Seen) -> None:
        if first == "lost":
            connection.transport.abort()
        else:
            connection.transport.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")

    failing.script = fail
    hanging.script = hang
    fleet(rig, failing, hanging)
    pool = rig.table.fleets["f"]
    client = await rig.client()
    while not failing.requests:
        client.send(HEAD % 150 + BODY)
        answer = await client.answer(b"POST")
    assert answer.status == 504
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    assert (pool.replicas[0].failed, pool.replicas[0].outcomes.rejected) == (
        (1, 0) if first == "lost" else (0, 1)
    )
    untouched(pool.replicas[1], cancelled=len(hanging.requests))
    assert (pool.counters.errors, pool.counters.answered) == (0, 0)


async def test_the_replica_is_not_taken_for_stalled(rig: Rig) -> None:
    """Many that are given up one after the other are no proof that any would have waited in vain."""
    slow, other = await rig.replica(), await rig.replica()
    slow.script = other.script = hang
    fleet(rig, slow, other, stall_s=0.3)
    pool = rig.table.fleets["f"]
    clients = [await rig.client() for _ in range(4)]

    async def ask_until(client_number: int, end: float) -> None:
        await asyncio.sleep(0.05 * client_number)
        while time.monotonic() < end:
            clients[client_number].send(HEAD % 200 + BODY)
            assert (await clients[client_number].answer(b"POST")).status == 504

    end = time.monotonic() + 0.6
    await asyncio.gather(*(ask_until(number, end) for number in range(4)))
    for replica in pool.replicas:
        untouched(replica, cancelled=replica.picked)
    # Who waits without a limit of its own for so long is proof, counted from its own beginning.
    waiting = await rig.client()
    waiting.send(HEAD.replace(b"X-Request-Timeout-Ms: %d\r\n", b"") + BODY)
    await until(lambda: any(replica.in_flight for replica in pool.replicas))
    pool.refresh(time.monotonic())
    assert not any(replica.ejection.until for replica in pool.replicas)
    await asyncio.sleep(0.35)
    pool.refresh(time.monotonic())
    assert sum(replica.ejection.until > 0 for replica in pool.replicas) == 1
