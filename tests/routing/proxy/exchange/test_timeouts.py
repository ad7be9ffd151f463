"""The policy's time limits: what is answered, what is cut, and what the replica is charged with."""

import asyncio
import time

import pytest

from routing.contract.policy import Policy, Retries, Timeouts
from tests.routing.proxy.rig import OK, OK_ANSWER, Replica, ReplicaConnection, Rig, Seen, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"


async def hang(connection: ReplicaConnection, seen: Seen) -> None:
    """No answer, ever."""


async def begin(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


def policy(timeouts: Timeouts) -> Policy:
    # Even a policy that repeats everything repeats nothing after a time limit.
    return Policy(
        strategy="round_robin", slow_start_s=0, timeouts=timeouts, retries=Retries(replay_safe="always")
    )


async def two(rig: Rig, timeouts: Timeouts, protocol: str = "generic") -> list[Replica]:
    replicas = [await rig.replica(), await rig.replica()]
    rig.fleet(*replicas, policy=policy(timeouts), protocol=protocol)  # type: ignore[arg-type]
    return replicas


def seen_by(replicas: list[Replica]) -> int:
    return sum(len(replica.requests) for replica in replicas)


async def test_total(rig: Rig) -> None:
    replicas = await two(rig, Timeouts(total_s=0.3))
    for replica in replicas:
        replica.script = hang
    client = await rig.client()
    answer = await client.ask(GET)
    assert answer.status == 504
    assert b"longer than its limit of 0.3 s" in answer.body
    assert seen_by(replicas) == 1
    pool = rig.table.fleets["f"]
    assert sum(replica.failed for replica in pool.replicas) == 1
    assert pool.counters.errors == 1
    await until(lambda: not any(replica.open for replica in replicas))
    # The connection to the client lives on.
    for replica in replicas:
        replica.script = lambda connection, seen: answer_now(connection)
    assert (await client.ask(GET)).status == 200


async def answer_now(connection: ReplicaConnection) -> None:
    connection.transport.write(OK_ANSWER)


async def test_total_ends_an_answer_that_goes_on(rig: Rig) -> None:
    replicas = await two(rig, Timeouts(total_s=0.4))

    async def drip(connection: ReplicaConnection, seen: Seen) -> None:
        await begin(connection, seen)
        while not connection.closed:
            connection.transport.write(b"1\r\nx\r\n")
            await asyncio.sleep(0.02)

    for replica in replicas:
        replica.script = drip
    client = await rig.client()
    answer = await client.ask(GET)
    assert answer.body.startswith(b"hello")
    assert not answer.complete


async def test_silence_within_an_answer(rig: Rig) -> None:
    replicas = await two(rig, Timeouts(idle_s=0.3))
    for replica in replicas:
        replica.script = begin
    client = await rig.client()
    answer = await client.ask(GET)
    assert (answer.status, answer.body, answer.complete) == (200, b"hello", False)
    assert seen_by(replicas) == 1
    pool = rig.table.fleets["f"]
    assert sum(replica.failed for replica in pool.replicas) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_first_byte_is_limited_for_streams_only(rig: Rig, stream: bool) -> None:
    replicas = await two(rig, Timeouts(first_byte_s=0.3, total_s=1.0), "openai")
    for replica in replicas:
        replica.script = hang
    client = await rig.client()
    body = b'{"model": "f", "stream": %b}' % (b"true" if stream else b"false")
    answer = await client.ask(
        b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    assert answer.status == 504
    assert (b"nothing for 0.3 s" in answer.body) == stream
    assert seen_by(replicas) == 1


async def test_replica_that_takes_no_body(rig: Rig) -> None:
    (replica,) = [await rig.replica()]
    rig.fleet(replica, policy=policy(Timeouts(idle_s=0.3)))
    replica.on_data = lambda connection, data: connection.transport.pause_reading()
    client = await rig.client()
    size = 60 << 20
    client.send(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
    answer = await client.answer(b"POST")
    assert answer.status == 504
    assert b"read nothing of the request for 0.3 s" in answer.body
    assert await client.ends(3.0) == b""


async def test_a_slow_client_is_not_the_replicas_silence(rig: Rig) -> None:
    """While the client is paused, the replica cannot speak."""
    replica = await rig.replica()
    rig.fleet(replica, policy=policy(Timeouts(idle_s=0.3)))
    size = 32 << 20

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size))

    replica.script = script
    client = await rig.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET)
    await until(lambda: replica.requests)
    await asyncio.sleep(0.8)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert len((await client.answer(limit_s=20)).body) == size


LIMITED = b"POST /x HTTP/1.1\r\nHost: a.test\r\nX-Request-Timeout-Ms: %d\r\nContent-Length: 5\r\n\r\n"


async def test_a_clients_own_limit(rig: Rig) -> None:
    """The replica is given up, and nothing is held against it; the connection lives on."""
    replicas = await two(rig, Timeouts(), "openai")
    for replica in replicas:
        replica.script = hang
    client = await rig.client()
    began = time.monotonic()
    client.send(LIMITED % 300 + b"hello")
    answer = await client.answer(b"POST")
    assert 0.3 <= time.monotonic() - began < 2
    assert answer.status == 504
    assert b"own time limit of 0.3 s" in answer.body
    assert seen_by(replicas) == 1
    asked = next(replica for replica in replicas if replica.requests)
    assert asked.requests[0].get(b"x-request-timeout-ms") == [b"300"]
    await until(lambda: not asked.open)
    pool = rig.table.fleets["f"]
    assert [replica.failed for replica in pool.replicas] == [0, 0]
    assert sum(replica.outcomes.cancelled for replica in pool.replicas) == 1
    assert (pool.counters.errors, pool.counters.cancelled) == (0, 1)
    for replica in replicas:
        replica.script = lambda connection, seen: answer_now(connection)
    assert (await client.ask(LIMITED % 60_000 + b"hello")).status == 200


async def test_a_clients_own_limit_while_its_body_comes(rig: Rig) -> None:
    replicas = await two(rig, Timeouts())
    client = await rig.client()
    client.send(LIMITED % 200 + b"he")
    assert (await client.answer(b"POST")).status == 504
    assert seen_by(replicas) == 0


async def test_a_clients_own_limit_cuts_an_answer_that_goes_on(rig: Rig) -> None:
    replicas = await two(rig, Timeouts())
    for replica in replicas:
        replica.script = begin
    client = await rig.client()
    client.send(LIMITED % 300 + b"hello")
    answer = await client.answer(b"POST")
    assert (answer.status, answer.body, answer.complete) == (200, b"hello", False)
    assert [replica.failed for replica in rig.table.fleets["f"].replicas] == [0, 0]


async def test_what_is_too_late_is_sent_to_no_other_replica(rig: Rig) -> None:
    """The first replica breaks off once the time is over; no second one is asked."""
    replicas = await two(rig, Timeouts())

    async def break_off(connection: ReplicaConnection, seen: Seen) -> None:
        await asyncio.sleep(0.05)  # longer than the limit, shorter than the proxy takes to look at it
        connection.transport.abort()

    for replica in replicas:
        replica.script = break_off
    client = await rig.client()
    client.send(LIMITED % 30 + b"hello")
    assert (await client.answer(b"POST")).status == 504
    assert seen_by(replicas) <= 1, "none, where a busy machine has let the time pass before"


@pytest.mark.parametrize("value", [b"", b"0", b"-1", b"1.5", b"10s", b"1234567890", b"1, 2"])
async def test_a_limit_that_is_none(value: bytes, rig: Rig) -> None:
    replicas = await two(rig, Timeouts())
    client = await rig.client()
    answer = await client.ask(b"GET /x HTTP/1.1\r\nHost: a.test\r\nX-Request-Timeout-Ms: %b\r\n\r\n" % value)
    assert answer.status == 400
    assert b"X-Request-Timeout-Ms must be a whole number of milliseconds" in answer.body
    assert seen_by(replicas) == 0
