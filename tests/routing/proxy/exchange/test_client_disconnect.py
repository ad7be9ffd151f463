"""A client that leaves cancels the replica's work within 100 ms, whatever the exchange is doing."""

import asyncio
import select
import time
from collections.abc import Callable

import pytest

from tests.routing.proxy.exchange.test_tunnel import ASKED, switch
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, unreachable, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
WAYS: dict[str, Callable[[Client], None]] = {
    "close": lambda client: client.writer.close(),
    "reset": lambda client: client.abort(),
    "half-close": lambda client: client.half_close(),
}


async def hang(connection: ReplicaConnection, seen: Seen) -> None:
    """No answer, ever."""


async def half_an_answer(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("phase", ["waiting", "streaming", "uploading"])
@pytest.mark.row("F09", "F10")
async def test_client_leaves(rig: Rig, replica: Replica, client: Client, way: str, phase: str) -> None:
    replica.script = half_an_answer if phase == "streaming" else hang
    if phase == "uploading":
        client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\nhello")
        await until(lambda: replica.connections and replica.connections[0].received.endswith(b"hello"))
    else:
        client.send(GET)
        await until(lambda: replica.requests)
    if phase == "streaming":
        await client.reader.readuntil(b"hello\r\n")
    left = time.monotonic()
    WAYS[way](client)
    await until(lambda: replica.connections[0].closed)
    assert replica.connections[0].closed_at - left < 0.1
    pool = rig.table.fleets["f"]
    await until(lambda: pool.counters.cancelled == 1)
    assert pool.replicas[0].outcomes.cancelled == 1
    assert pool.replicas[0].failed == 0


async def test_client_leaves_while_connecting(rig: Rig) -> None:
    """Nothing is left of a connection that was being opened."""
    with unreachable() as replica:
        rig.fleet(replica)
        client = await rig.client()
        client.send(GET)
        pool = rig.table.fleets["f"]
        await until(lambda: pool.counters.in_flight)
        left = time.monotonic()
        client.writer.close()
        await until(lambda: pool.counters.cancelled == 1)
        assert time.monotonic() - left < 0.1
        assert pool.replicas[0].in_flight == 0
        assert rig.proxy.upstreams == 0


async def test_client_leaves_while_its_body_is_searched(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    client = await rig.client()
    client.send(b'POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n{"model": "f"')
    await until(lambda: rig.proxy.bodies.used)
    client.abort()
    await until(lambda: rig.proxy.clients == 0)
    assert rig.proxy.bodies.used == 0
    assert replica.connections == []


async def test_client_leaves_between_requests(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(GET)).status == 200
    client.writer.close()
    await until(lambda: rig.proxy.clients == 0)
    assert len(replica.open) == 1


async def test_client_leaves_with_pipelined_requests_held(rig: Rig, replica: Replica, client: Client) -> None:
    """Reading is paused because too much is held; the going is noticed all the same."""
    replica.script = hang
    client.send(GET * 10_000)
    await until(lambda: replica.requests)
    left = time.monotonic()
    client.abort()
    await until(lambda: replica.connections[0].closed)
    assert replica.connections[0].closed_at - left < 0.1


def heard(connection: ReplicaConnection) -> bool:
    """Whether FIN or RST has come to a replica that reads nothing, and whose loop does not tell it so."""
    poll = select.poll()
    poll.register(connection.transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


async def stands_still(value: Callable[[], int]) -> None:
    """Wait until a value has not changed for a while."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < 0.1:
        await asyncio.sleep(0.01)
        if value() != last:
            last, since = value(), time.monotonic()


@pytest.mark.parametrize("way", WAYS)
async def test_client_leaves_an_answer_that_it_does_not_read(
    rig: Rig, replica: Replica, client: Client, way: str
) -> None:
    """The proxy reads nothing of the replica either, so neither end can write."""

    async def flood(connection: ReplicaConnection, seen: Seen) -> None:
        size = 64 << 20
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size))

    replica.script = flood
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET)
    await until(lambda: replica.requests)
    connection = replica.connections[0]
    await stands_still(connection.transport.get_write_buffer_size)
    assert connection.transport.get_write_buffer_size()
    left = time.monotonic()
    WAYS[way](client)
    await until(lambda: connection.closed)
    assert connection.closed_at - left < 0.1
    await until(lambda: rig.proxy.clients == 0)


@pytest.mark.parametrize("tunnel", [False, True])
async def test_a_replica_that_reads_nothing_hears_of_it_too(
    rig: Rig, replica: Replica, client: Client, tunnel: bool
) -> None:
    """A FIN would wait behind all that was sent to it."""
    if tunnel:
        replica.script = switch
        assert (await client.ask(ASKED)).status == 101
    else:
        client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (60 << 20))
        await until(lambda: replica.connections and replica.connections[0].received)
    connection = replica.connections[0]
    connection.transport.pause_reading()
    client.send(bytes(60 << 20))
    await stands_still(client.writer.transport.get_write_buffer_size)
    assert client.writer.transport.get_write_buffer_size()
    assert not heard(connection)
    left = time.monotonic()
    client.abort()
    await until(lambda: heard(connection))
    assert time.monotonic() - left < 0.1
    await until(lambda: rig.proxy.upstreams == 0)
