"""WebSockets: a real client and a real server through the proxy, and what a tunnel owes byte by byte."""

import asyncio
import time
from collections.abc import Callable

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve

from routing.contract.policy import Policy, Timeouts
from tests.routing.proxy.rig import Client, Replica, ReplicaConnection, Rig, Seen, until

ASKED = (
    b"GET /ws?a=1 HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
MIB = 1 << 20


async def switch(connection: ReplicaConnection, seen: Seen) -> None:
    connection.tunnel = True
    connection.transport.write(SWITCHED)


@pytest.fixture
async def tunnel(replica: Replica, client: Client) -> ReplicaConnection:
    """The replica's end of an open tunnel."""
    replica.script = switch
    answer = await client.ask(ASKED)
    assert answer.status == 101
    return replica.connections[0]


async def echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


async def test_a_real_server_and_a_real_client(rig: Rig) -> None:
    async with serve(echo, "127.0.0.1", 0, max_size=8 * MIB) as server:
        rig.fleet(_at(server))
        url = f"{'ws' if rig.tls is None else 'wss'}://127.0.0.1:{rig.port}/fleets/f/chat"
        async with connect(url, max_size=8 * MIB, ssl=rig.tls and rig.tls.client) as socket:
            for message in ("hello", b"\x00" * 70_000, "x" * (4 * MIB)):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.ping()
            replica = rig.table.fleets["f"].replicas[0]
            assert (replica.in_flight, replica.stall_exempt) == (1, 1)
        assert socket.close_code == 1000
        await until(lambda: replica.in_flight == 0)
    assert replica.stall_exempt == 0
    assert (replica.outcomes.cancelled, replica.failed, replica.picked) == (0, 0, 1)


async def test_what_is_forwarded(replica: Replica, client: Client) -> None:
    replica.script = switch
    answer = await client.ask(ASKED)
    assert answer.status == 101
    assert answer.get(b"upgrade") == [b"websocket"]
    assert answer.get(b"connection") == [b"Upgrade"]
    assert answer.get(b"sec-websocket-accept") == [b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]
    assert answer.get(b"x-switchyard-replica") == [b"r0"]
    seen = replica.requests[0]
    assert seen.line == b"GET /ws?a=1 HTTP/1.1"
    assert seen.get(b"connection") == [b"Upgrade"]
    assert seen.get(b"upgrade") == [b"websocket"]
    assert seen.get(b"sec-websocket-key") == [b"dGhlIHNhbXBsZSBub25jZQ=="]


async def test_bytes_that_come_with_the_heads_are_not_lost(replica: Replica, client: Client) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.tunnel = True
        connection.transport.write(SWITCHED + b"first")

    replica.script = script
    client.send(ASKED)
    client.send(b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert (await client.answer()).status == 101
    assert await client.reader.readexactly(5) == b"first"
    # What was sent before the answer is the tunnel's, whatever it looks like.
    await until(
        lambda: replica.connections[0].received.endswith(b"smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n")
    )
    assert len(replica.requests) == 1


async def test_a_replica_that_does_not_switch_answers(replica: Replica, client: Client) -> None:
    assert (await client.ask(ASKED)).body == b"ok"
    assert (await client.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")).body == b"ok"


@pytest.mark.parametrize(
    "asked",
    [
        ASKED.replace(b"WebSocket\r", b"h2c\r"),
        ASKED.replace(b"WebSocket\r", b"websocket, h2c\r"),
        ASKED.replace(b", Upgrade", b""),
        ASKED.replace(b"HTTP/1.1", b"HTTP/1.0", 1),
        ASKED.replace(b"GET", b"POST", 1),
        ASKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\nhi"),
    ],
)
async def test_what_is_no_web_socket_is_asked_plainly(asked: bytes, replica: Replica, client: Client) -> None:
    """Nor may the replica switch then."""
    assert (await client.ask(asked)).status == 200
    assert replica.requests[0].get(b"upgrade") == []
    assert replica.requests[0].get(b"connection") == []


@pytest.mark.parametrize(
    "answer", [SWITCHED.replace(b"websocket", b"h2c"), SWITCHED.replace(b"Upgrade: websocket\r\n", b"")]
)
async def test_a_switch_to_something_else_is_refused(answer: bytes, replica: Replica, client: Client) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(answer)

    replica.script = script
    assert (await client.ask(ASKED)).status == 502
    await until(lambda: not replica.open)


async def test_the_replica_closes(tunnel: ReplicaConnection, client: Client) -> None:
    tunnel.transport.write(b"bye")
    tunnel.transport.close()
    assert await client.ends() == b"bye"


async def test_the_client_closes(tunnel: ReplicaConnection, client: Client) -> None:
    client.send(b"bye")
    client.writer.close()
    await until(lambda: tunnel.closed)
    assert tunnel.received.endswith(b"bye")


async def test_each_side_is_told_at_once_when_the_other_breaks(rig: Rig, replica: Replica) -> None:
    replica.script = switch
    for side in ("client", "replica"):
        client = await rig.client()
        assert (await client.ask(ASKED)).status == 101
        connection = replica.connections[-1]
        began = time.monotonic()
        if side == "client":
            client.abort()
            await until(lambda connection=connection: connection.closed)
        else:
            connection.transport.abort()
            await client.ends()
        assert time.monotonic() - began < 1
    await until(lambda: rig.table.fleets["f"].counters.in_flight == 0)


@pytest.mark.parametrize("way", ["up", "down"])
async def test_whoever_reads_slowly_pauses_the_other(
    way: str, rig: Rig, tunnel: ReplicaConnection, client: Client
) -> None:
    """Of 64 MiB only what the sockets hold is on its way; what is read then is whole."""
    sent = 64 * MIB
    if way == "down":
        raw = client.writer.transport
        raw.pause_reading()  # type: ignore[attr-defined]
        tunnel.transport.write(b"x" * sent)
        await _stands_still(tunnel.transport.get_write_buffer_size)
        assert tunnel.transport.get_write_buffer_size() > sent // 2
        raw.resume_reading()  # type: ignore[attr-defined]
        assert len(await client.reader.readexactly(sent)) == sent
    else:
        tunnel.transport.pause_reading()
        before = len(tunnel.received)
        client.send(b"x" * sent)
        await _stands_still(client.writer.transport.get_write_buffer_size)
        assert client.writer.transport.get_write_buffer_size() > sent // 2
        tunnel.transport.resume_reading()
        await until(lambda: len(tunnel.received) == before + sent)


async def test_silence_ends_it_and_neither_the_total_nor_a_stall_does(rig: Rig, client: Client) -> None:
    replicas = [await rig.replica(), await rig.replica()]
    for replica in replicas:
        replica.script = switch
    limits = Timeouts(idle_s=1.5, total_s=0.2, stall_s=0.1)
    rig.fleet(*replicas, policy=Policy(strategy="round_robin", slow_start_s=0, timeouts=limits))
    assert (await client.ask(ASKED)).status == 101
    pool = rig.table.fleets["f"]
    asked = next(one for one in pool.replicas if one.stall_exempt)
    began = time.monotonic()
    while time.monotonic() - began < 0.8:
        client.send(b"x")
        await asyncio.sleep(0.05)
    pool.refresh(time.monotonic() + 1000)  # as if nothing had been heard for so long
    assert not asked.ejection.until
    spoke = time.monotonic()
    assert await client.ends(limit_s=10) == b""
    assert time.monotonic() - spoke > 1
    await until(lambda: pool.counters.in_flight == 0)
    assert pool.counters.errors == 0
    assert asked.failed == 0


async def _stands_still(value: Callable[[], int]) -> None:
    """Wait until a value has not changed for a while."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < 0.3:
        await asyncio.sleep(0.02)
        if value() != last:
            last, since = value(), time.monotonic()


def _at(server: Server) -> Replica:
    """A server that is running already, as a replica."""
    replica = Replica("real")
    replica.port = next(iter(server.sockets)).getsockname()[1]
    return replica
