"""Bytes pass at once in both directions, and whichever side is ahead is paused."""

import asyncio
import time

import pytest

from routing.contract.policy import Policy, Timeouts
from routing.contract.sketch import bucket_of
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, StartRig, until

MIB = 1 << 20
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.row("F08")
async def test_each_event_arrives_before_the_next_is_written(
    rig: Rig, replica: Replica, client: Client, framing: str
) -> None:
    """No event waits for another: the replica writes the next only when the client has the last."""
    received: asyncio.Queue[int] = asyncio.Queue()
    delays = []

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        write = connection.transport.write
        chunked = framing == "chunked"
        write(
            OK
            + b"Content-Type: text/event-stream\r\n"
            + b"Transfer-Encoding: chunked\r\n" * chunked
            + b"\r\n"
        )
        for number in range(20):
            event = b"data: %02d\n\n" % number
            started = time.monotonic()
            write(b"a\r\n" + event + b"\r\n" if chunked else event)
            assert await received.get() == number
            delays.append(time.monotonic() - started)
        write(b"0\r\n\r\n" if chunked else b"")
        if not chunked:
            connection.transport.close()

    replica.script = script
    client.send(GET)
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    async with asyncio.timeout(10):
        for number in range(20):
            assert await client.reader.readuntil(b"\n\n\r\n") == b"a\r\ndata: %02d\n\n\r\n" % number
            received.put_nowait(number)
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"
    assert sorted(delays)[10] < 0.02


async def test_events_come_without_their_chunks_to_a_client_that_knows_none(
    rig: Rig, replica: Replica, client: Client
) -> None:
    """Of equal length, each in a segment of its own: from the second on they are known at a glance."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for event in (b"a\r\ndata: 01\n\n\r\n", b"A\r\ndata: 02\n\n\r\n", b"a\r\ndata: 03\n\n\r\n"):
            await asyncio.sleep(0.02)
            connection.transport.write(event)
        connection.transport.write(b"0\r\n\r\n")

    replica.script = script
    client.send(GET.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (await client.reader.read()).endswith(b"\r\n\r\ndata: 01\n\ndata: 02\n\ndata: 03\n\n")


async def test_request_body_streams_to_a_named_fleet(rig: Rig, replica: Replica, client: Client) -> None:
    """The replica has the first half of the body before the client sends the second."""
    head = b"POST /fleets/f/upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n"
    client.send(head + b"hello")
    await until(lambda: replica.connections and replica.connections[0].received.endswith(b"hello"))
    assert replica.connections[0].received.startswith(b"POST /upload HTTP/1.1\r\n")
    client.send(b"world")
    assert (await client.answer()).status == 200
    assert replica.requests[0].body == b"helloworld"


async def test_the_time_a_client_takes_to_send_is_not_the_replicas(
    rig: Rig, replica: Replica, client: Client
) -> None:
    """What is learned of the replica counts from when it had the request; the fleet's latency does not."""
    client.send(b"POST /fleets/f/upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello")
    await until(lambda: replica.connections and replica.connections[0].received.endswith(b"hello"))
    await asyncio.sleep(0.3)
    client.send(b"world")
    assert (await client.answer()).status == 200
    pool = rig.table.fleets["f"]
    (learned,) = pool.replicas[0].latency
    (told,) = pool.counters.latency
    assert learned < bucket_of(0.25) < bucket_of(0.3) <= told


async def test_expect_continue(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert (await client.answer()).status == 100
    client.send(b"hello")
    assert (await client.answer()).status == 200
    assert replica.requests[0].body == b"hello"
    assert replica.requests[0].get(b"expect") == []


async def test_expect_continue_is_not_answered_when_the_body_is_there(
    rig: Rig, replica: Replica, client: Client
) -> None:
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
    assert (await client.answer()).status == 200


@pytest.mark.row("F06")
async def test_slow_client_pauses_the_replica(rig: Rig, replica: Replica, client: Client) -> None:
    """100 MiB for a client that reads nothing: little of it is ever held in the proxy."""
    written = 0
    total = 100 * MIB

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        nonlocal written
        transport = connection.transport
        transport.write(OK + b"Content-Length: %d\r\n\r\n" % total)
        piece = bytes(MIB // 4)
        while written < total and not transport.is_closing():
            if transport.get_write_buffer_size() < MIB:
                transport.write(piece)
                written += len(piece)
            else:
                await asyncio.sleep(0.002)

    replica.script = script
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET)
    exchange = None
    held = 0
    before = -1
    # Until nothing moves any more.
    while written != before or written == 0:
        before = written
        for _ in range(50):
            await asyncio.sleep(0.002)
            for one in rig.proxy._clients:
                held = max(held, one.transport.get_write_buffer_size())
                exchange = one.exchange or exchange
    assert exchange is not None
    assert written < total
    assert 0 < held <= MIB
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    answer = await client.answer(limit_s=30)
    assert len(answer.body) == total


@pytest.mark.row("F07")
async def test_slow_replica_pauses_the_client(rig: Rig, replica: Replica, client: Client) -> None:
    """An upload to a replica that reads nothing stops; the client's going is noticed all the same."""
    replica.on_data = lambda connection, data: connection.transport.pause_reading()
    total = 60 * MIB
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % total)
    client.send(bytes(total))
    left = client.writer.transport.get_write_buffer_size
    before = -1
    while left() != before:
        before = left()
        for _ in range(50):
            await asyncio.sleep(0.002)
    assert left() > total // 2
    upstream = next(iter(next(iter(rig.table.fleets.values())).replicas[0].endpoint.pool.open))  # type: ignore[union-attr]
    assert upstream.transport.get_write_buffer_size() <= MIB
    started = time.monotonic()
    client.abort()
    await until(lambda: rig.proxy.clients == 0)
    assert time.monotonic() - started < 0.1
    await until(lambda: rig.proxy.upstreams == 0)


async def test_upload_of_many_mebibytes(rig: Rig, replica: Replica, client: Client) -> None:
    body = bytes(range(256)) * (8 * MIB // 256)
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert (await client.answer(limit_s=30)).status == 200
    assert replica.requests[0].body == body


@pytest.mark.row("F11")
async def test_early_answer_while_uploading(rig: Rig, replica: Replica, client: Client) -> None:
    """The client gets the whole error, then the connection ends; the rest of its body is not waited for."""

    def refuse(connection: ReplicaConnection, data: bytes) -> None:
        if connection.received.startswith(b"POST") and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 6\r\n\r\ndenied")

    replica.on_data = refuse
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (10 * MIB) + bytes(100))
    answer = await client.answer()
    assert (answer.status, answer.body) == (401, b"denied")
    assert answer.get(b"connection") == [b"close"]
    assert await client.ends() == b""
    await until(lambda: not replica.open)


async def test_answer_to_http_1_0_is_closed(rig: Rig, replica: Replica, client: Client) -> None:
    answer = await client.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert answer.get(b"connection") == [b"close"]
    assert await client.ends() == b""


@pytest.mark.row("F06")
async def test_client_that_stops_reading_is_cut_off(start_rig: StartRig) -> None:
    """The write stall limit, in small."""
    from routing.http.limits import ConnectionLimits
    from routing.proxy import ProxySettings

    rig = await start_rig(ProxySettings(limits=ConnectionLimits(write_stall_s=0.3)))
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(strategy="round_robin", timeouts=Timeouts(idle_s=30)))

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % (64 * MIB) + bytes(64 * MIB))

    replica.script = script
    client = await rig.client()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET)
    await until(lambda: replica.requests)
    await until(lambda: rig.proxy.clients == 0)
    await until(lambda: not replica.open)
    assert rig.table.fleets["f"].counters.cancelled == 1
