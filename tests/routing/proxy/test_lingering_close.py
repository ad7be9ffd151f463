"""Connections that the proxy ends while the client sends: a FIN or a whole answer, never a reset (F12)."""

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from routing.http.client_connection import ClientConnection
from routing.http.limits import ConnectionLimits
from routing.proxy import ProxySettings
from tests.routing.proxy.raw_client import RawClient, raw_client
from tests.routing.proxy.rig import OK, OK_ANSWER, Replica, ReplicaConnection, Rig, Seen, StartRig, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n"
LINGER_S = 20.0


def idle_limit_passes(rig: Rig) -> None:
    """What the sweeper does later, now: no byte that is sent just before can be read in between."""
    (connection,) = rig.proxy._clients
    connection.check(time.monotonic() + ConnectionLimits().keep_alive_s + 1)


def server_leaves(rig: Rig) -> None:
    rig.proxy.drain()
    rig.proxy.leave(0.0)


ENDS: dict[str, Callable[[Rig], None]] = {"idle limit": idle_limit_passes, "leaving": server_leaves}
either_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@pytest.fixture
async def lingering_rig(start_rig: StartRig) -> Rig:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=LINGER_S)))
    rig.fleet(await rig.replica())
    return rig


async def whole_answer(client: RawClient) -> bytes:
    said = b""
    while not said.endswith(b"\r\n\r\nok"):
        piece = await client.received()
        assert piece, said
        said += piece
    return said


@either_end
@pytest.mark.row("F12")
async def test_request_that_is_not_read_yet(lingering_rig: Rig, end: Callable[[Rig], None]) -> None:
    """The kernel has it before the connection is to end: it is served."""
    async with raw_client(lingering_rig) as client:
        client.send(GET)
        await whole_answer(client)
        client.send(GET)
        end(lingering_rig)
        asks_to_close = b"\r\nConnection: close\r\n" in await whole_answer(client)
        assert asks_to_close == lingering_rig.proxy.draining
        assert len(lingering_rig.replicas[0].requests) == 2


@either_end
@pytest.mark.row("F12")
async def test_request_that_comes_after_the_fin(lingering_rig: Rig, end: Callable[[Rig], None]) -> None:
    """A client that does not look before it sends: a closed socket would answer its head with a reset, and
    sending the body would fail."""
    async with raw_client(lingering_rig) as client:
        client.send(GET)
        await whole_answer(client)
        end(lingering_rig)
        assert await client.received() == b""
        client.send(POST)
        for _ in range(60):
            client.send(bytes(1000))
        assert client.error == 0
        assert await client.received() == b""
        assert len(lingering_rig.replicas[0].requests) == 1
        assert lingering_rig.proxy.clients == 1
    # The client closed: there is nothing to wait for.
    await until(lambda: lingering_rig.proxy.clients == 0)


@either_end
async def test_connection_without_any_request(lingering_rig: Rig, end: Callable[[Rig], None]) -> None:
    async with raw_client(lingering_rig) as client:
        await until(lambda: lingering_rig.proxy.clients == 1)
        end(lingering_rig)
        assert await client.received() == b""


async def test_a_connection_is_quiet_for_a_while_before_it_is_closed(rig: Rig, replica: Replica) -> None:
    """Whoever has just connected, or just had an answer, may be sending a request."""
    async with raw_client(rig) as new, raw_client(rig) as used:
        used.send(GET)
        await whole_answer(used)
        await until(lambda: rig.proxy.clients == 2)
        rig.proxy.drain()
        began = time.monotonic()
        assert rig.proxy.leave(0.3)
        for client in (new, used):
            client.send(GET)
            assert b"\r\nConnection: close\r\n" in await whole_answer(client)
            assert await client.received() == b""
        await until(lambda: not rig.proxy.leave(0.3))
    async with raw_client(rig) as silent:
        await until(lambda: rig.proxy.clients == 1)
        await until(lambda: not rig.proxy.leave(0.3))
        assert time.monotonic() - began >= 0.3
        assert await silent.received() == b""


async def test_a_stream_that_did_not_say_close_has_a_successor(rig: Rig, replica: Replica) -> None:
    """Its client sends the next request as soon as it has the last byte."""
    gate = asyncio.Event()

    async def stream(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n")
        await gate.wait()
        connection.transport.write(b"2\r\nok\r\n0\r\n\r\n")

    replica.script = stream
    async with raw_client(rig) as client:
        client.send(GET)
        said = await client.received()
        while b"\r\nhe\r\n" not in said:
            said += await client.received()
        assert b"Connection" not in said
        rig.proxy.drain()
        assert rig.proxy.leave(0.3)
        gate.set()
        while not said.endswith(b"0\r\n\r\n"):
            said += await client.received()
        assert rig.proxy.leave(0.3)
        replica.script = answer_at_once
        client.send(GET)
        assert b"\r\nConnection: close\r\n" in await whole_answer(client)
        assert await client.received() == b""


async def answer_at_once(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK_ANSWER)


async def test_request_while_a_draining_proxy_ends_the_one_before(
    lingering_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer that says "close" crosses the next request, and is not destroyed by it."""
    finish = ClientConnection.finish
    async with raw_client(lingering_rig) as client:

        async def drain_first(connection: ReplicaConnection, seen: Seen) -> None:
            lingering_rig.proxy.drain()
            connection.transport.write(OK_ANSWER)

        def send_and_finish(connection: ClientConnection, now: float, keep: bool) -> None:
            client.send(GET)
            finish(connection, now, keep)

        lingering_rig.replicas[0].script = drain_first
        monkeypatch.setattr(ClientConnection, "finish", send_and_finish)
        client.send(GET)
        assert b"\r\nConnection: close\r\n" in await whole_answer(client)
        assert await client.received() == b""
        assert not lingering_rig.proxy.idle()
    await until(lingering_rig.proxy.idle)


async def test_idle_connections_do_not_hold_a_drain_up(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=0.2)))
    rig.fleet(await rig.replica())
    async with raw_client(rig) as client:
        client.send(GET)
        await whole_answer(client)
        server_leaves(rig)
        assert rig.proxy.idle()
        # A client that never closes its side is not waited for any longer.
        await until(lambda: rig.proxy.clients == 0)
        assert await client.received() == b""


async def test_what_is_sent_after_the_fin_is_bounded(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=LINGER_S, linger_bytes=5000)))
    rig.fleet(await rig.replica())
    async with raw_client(rig) as client:
        await until(lambda: rig.proxy.clients == 1)
        server_leaves(rig)
        (connection,) = rig.proxy._clients
        client.send(bytes(4000))
        # With TLS's own bytes a little more.
        await until(lambda: connection._lingering is not None and connection._lingering._received >= 4000)
        assert not connection.transport.is_closing()
        client.send(bytes(4000))
        await until(lambda: rig.proxy.clients == 0)


async def test_an_answer_that_is_still_being_taken_is_not_cut(start_rig: StartRig) -> None:
    """The drain comes after the answer's last byte was written, and before the client has read it."""
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=1.0, write_stall_s=60.0)))
    replica = await rig.replica()
    rig.fleet(replica)
    size = 1 << 20

    async def large(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size))

    replica.script = large
    async with raw_client(rig, receive_buffer=4096) as client:
        await until(lambda: rig.proxy.clients == 1)
        (connection,) = rig.proxy._clients
        kernel_side = connection.transport.get_extra_info("socket")
        kernel_side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.send(GET)
        pool = rig.table.fleets["f"]
        taken = b""
        while not pool.counters.answered:
            taken += await client.received(1024)
        assert connection.transport.get_write_buffer_size() > 0
        server_leaves(rig)
        assert not rig.proxy.idle()
        now = time.monotonic()
        for later in (2.0, 30.0):
            connection.check(now + later)
        while piece := await client.received(1 << 20):
            taken += piece
        assert len(taken.partition(b"\r\n\r\n")[2]) == size
    await until(rig.proxy.idle)
