"""A client that leaves cancels the replica's work within 100 ms, whatever the exchange is doing."""

import time
from collections.abc import Callable

import pytest

from tests.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, unreachable, until

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
    assert pool.replicas[0].cancelled == 1
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
    await until(lambda: rig.proxy.searched_bytes)
    client.abort()
    await until(lambda: rig.proxy.clients == 0)
    assert rig.proxy.searched_bytes == 0
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
