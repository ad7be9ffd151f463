"""Whoever does not take what is written to it is not written to: little is ever held for it."""

import asyncio
import contextlib
import os
import socket
import time
import tracemalloc

import pytest

from routing.http.client_connection import ClientConnection
from routing.http.limits import ConnectionLimits
from routing.proxy import ProxySettings
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from tests.routing.proxy.rig import (
    OK,
    OK_ANSWER,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    StartRig,
    until,
)

MIB = 1 << 20
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
FEW = 1024
"""Bytes of small pieces: each is dear to keep, some hundreds of bytes beside its own."""


def served(rig: Rig) -> ClientConnection:
    """The proxy's end of the one client's connection."""
    (connection,) = rig.proxy._clients
    assert isinstance(connection, ClientConnection)
    return connection


def small_kernel_buffer(transport: asyncio.BaseTransport) -> None:
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


async def slow_client(rig: Rig) -> Client:
    """One that reads nothing yet, with little room for what it has not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", rig.port))
    client = Client(*await asyncio.open_connection(sock=sock, limit=4096))
    rig._clients.append(client)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await until(lambda: rig.proxy.clients)
    small_kernel_buffer(served(rig).transport)
    return client


async def tiny_chunks(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.set_write_buffer_limits(high=0)
    connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(20_000):
        if connection.closed:
            return
        connection.transport.write(b"1\r\nx\r\n")
        await asyncio.sleep(0)


async def test_tiny_chunks_that_nobody_reads(rig: Rig, replica: Replica) -> None:
    replica.script = tiny_chunks
    client = await slow_client(rig)
    client.send(GET)
    await until(lambda: rig.proxy.clients and served(rig).write_paused)
    upstream = served(rig).exchange.upstream  # type: ignore[union-attr]
    await until(lambda: not upstream.transport.is_reading())
    assert served(rig).transport.get_write_buffer_size() < FEW
    client.abort()


async def test_tiny_pieces_of_an_upload_that_nobody_reads(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
    await until(lambda: replica.connections and replica.connections[0].received)
    replica.connections[0].transport.pause_reading()
    upstream = served(rig).exchange.upstream  # type: ignore[union-attr]
    small_kernel_buffer(upstream.transport)
    end = time.monotonic() + 10
    while not upstream.write_paused:
        assert time.monotonic() < end
        client.send(b"1\r\nx\r\n")
        await asyncio.sleep(0)
    assert upstream.transport.get_write_buffer_size() < FEW
    assert not served(rig).transport.is_reading()
    client.abort()


async def test_requests_wait_while_their_answers_are_not_read(rig: Rig, replica: Replica) -> None:
    """Also those that the proxy answers itself. All are answered once the client reads."""
    client = await slow_client(rig)
    asked = 20_000
    client.send(b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n" * asked)
    held = most = 0
    before = -1
    while held != before or not held:
        before = held
        await asyncio.sleep(0.05)
        held = served(rig).transport.get_write_buffer_size()
        most = max(most, held)
    assert most < MIB
    assert not served(rig).transport.is_reading()
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(asked):
        assert (await client.answer()).status == 200


async def test_a_connection_that_served_a_slow_client_serves_others(rig: Rig, replica: Replica) -> None:
    """Its answer came whole, and was more than the client took: nothing of that stays with the connection."""

    async def large(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: 100000\r\n\r\n" + bytes(100_000))

    replica.script = large
    slow = await slow_client(rig)
    slow.send(GET)
    await until(lambda: served(rig).write_paused and served(rig).exchange is None)
    other = await rig.client()
    assert (await other.ask(GET)).status == 200
    assert len(replica.connections) == 1
    slow.abort()


async def test_a_client_that_reads_slowly_is_not_one_that_reads_nothing(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(write_stall_s=0.4)))
    replica = await rig.replica()
    rig.fleet(replica)

    async def large(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: 200000\r\n\r\n" + bytes(200_000))

    replica.script = large
    client = await slow_client(rig)
    client.send(GET)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    began, received = time.monotonic(), 0
    while received < 200_000:
        piece = await client.reader.read(8000)
        assert piece, "the connection was cut"
        received += len(piece)
        await asyncio.sleep(0.05)
    assert time.monotonic() - began > 1


@pytest.mark.parametrize("pieces", [False, True])
async def test_a_byte_now_and_then_is_no_progress(start_rig: StartRig, pieces: bool) -> None:
    """Of one large response, and where each little that is taken makes room for the next piece."""
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(write_stall_s=0.6)))
    replica = await rig.replica()
    rig.fleet(replica)

    async def large(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: 4000000\r\n\r\n" + bytes(4_000_000))

    replica.script = tiny_chunks if pieces else large
    client = await slow_client(rig)
    client.send(GET)
    await until(lambda: rig.proxy.clients and served(rig).write_paused)
    raw = client.writer.transport.get_extra_info("socket")
    began = time.monotonic()
    while rig.proxy.clients and time.monotonic() - began < 5:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            os.read(raw.fileno(), 1000)
        await asyncio.sleep(0.15)
    assert 0.5 < time.monotonic() - began < 3
    await until(lambda: not rig.table.fleets["f"].counters.in_flight)


@pytest.mark.parametrize("local", [False, True])
async def test_a_client_that_takes_nothing_of_whole_answers_is_cut_off(
    start_rig: StartRig, local: bool
) -> None:
    """Also where no exchange waits for it any more."""
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(write_stall_s=0.3)))
    replica = await rig.replica()
    rig.fleet(replica)
    replica.script = whole
    client = await slow_client(rig)
    client.send(b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n" * 5000 if local else GET)
    await until(lambda: served(rig).write_paused)
    began = time.monotonic()
    await until(lambda: rig.proxy.clients == 0)
    assert time.monotonic() - began < 2


async def whole(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK_ANSWER.replace(b"2\r\n\r\nok", b"100000\r\n\r\n" + bytes(100_000)))


def test_a_body_in_small_pieces_is_held_as_one() -> None:
    tracemalloc.start()
    try:
        upload = RequestBodyBuffer(False, b"xx")
        for number in range(50_000):
            upload.add(b"%02d" % (number % 100), False)
        assert tracemalloc.get_traced_memory()[0] < 2 * upload.held
    finally:
        tracemalloc.stop()
    assert upload.held == 100_002
    assert upload.take() == b"xx" + b"".join(b"%02d" % (number % 100) for number in range(50_000))
    assert upload.held == 0
