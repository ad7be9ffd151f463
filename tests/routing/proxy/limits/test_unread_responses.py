"""The memory of responses that clients do not take: small pieces first, then those go that take nothing."""

import asyncio
import contextlib
import hashlib
import os
import socket
import time

import pytest

from routing.http.client_connection import ClientConnection
from routing.http.small_reads import SMALL_BYTES
from routing.proxy.limits.unread_responses import CUT
from tests.routing.proxy.rig import OK, Client, Replica, Rig, answer_bytes, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
BODY = os.urandom(1 << 20) * 4
LARGE = OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
MIB = 1 << 20


@pytest.fixture
def replica(rig: Rig, replica: Replica) -> Replica:
    replica.script = answer_bytes(LARGE)
    # Connections that are accepted have the same.
    for raw in rig._server.sockets:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return replica


async def reader(rig: Rig, source: str = "127.0.0.1") -> Client:
    """One that has asked, and reads nothing yet."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", rig.port))
    client = Client(*await asyncio.open_connection(sock=sock, limit=4096))
    rig._clients.append(client)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send(GET)
    return client


def waiting(rig: Rig) -> list[ClientConnection]:
    """Connections whose clients do not take what there is."""
    return [one for one in rig.proxy._clients if one.write_paused]  # type: ignore[misc]


async def is_cut_off(client: Client) -> bool:
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    with contextlib.suppress(ConnectionError):
        return len(await client.reader.read()) < len(BODY)
    return True


async def test_all_together_have_a_bound(rig: Rig, replica: Replica) -> None:
    """Those that have taken nothing for the longest time go."""
    unread = rig.proxy.unread
    unread._held.most = MIB
    clients = []
    most = 0
    for number in range(40):
        clients.append(await reader(rig))
        while len(waiting(rig)) + unread.acts[CUT] < number + 1:
            await asyncio.sleep(0.002)
            most = max(most, unread.held)
    await until(lambda: unread.held <= MIB)
    assert most <= MIB + 524_288
    assert unread.acts[CUT] >= 4
    # Those that are cut off are closed in a later turn of the loop.
    await until(lambda: unread.held >= sum(one.transport.get_write_buffer_size() for one in waiting(rig)))
    assert await is_cut_off(clients[0])
    assert len((await taken(clients[-1])).partition(b"\r\n\r\n")[2]) == len(BODY)


async def taken(client: Client) -> bytes:
    """The whole response."""
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    received = b""
    while len(received.partition(b"\r\n\r\n")[2]) < len(BODY):
        received += await client.reader.read(MIB)
    return received


async def test_of_the_address_with_most(rig: Rig, replica: Replica) -> None:
    """It goes before others that have waited for longer."""
    unread = rig.proxy.unread
    other = await reader(rig, "127.0.0.2")
    await until(lambda: len(waiting(rig)) == 1)
    many = [await reader(rig) for _ in range(5)]
    await until(lambda: len(waiting(rig)) == 6)
    unread._held.most = unread.held
    many.append(await reader(rig))
    await until(lambda: unread.acts[CUT])
    await until(lambda: unread.held <= unread._held.most)
    assert await is_cut_off(many[0])
    assert len((await taken(other)).partition(b"\r\n\r\n")[2]) == len(BODY)


async def test_small_pieces_when_there_is_much(rig: Rig, replica: Replica) -> None:
    """The response is the same, and its connection serves no other."""
    idle = await rig.client()
    await until(lambda: rig.proxy._clients)
    (connection,) = rig.proxy._clients
    rig.proxy.unread.put(connection, rig.proxy.unread._held.most // 2 + 1, time.monotonic())
    client = await reader(rig)
    await until(lambda: waiting(rig))
    (slow,) = waiting(rig)
    raw = client.writer.transport.get_extra_info("socket")
    received, held = b"", []
    while len(received.partition(b"\r\n\r\n")[2]) < len(BODY):
        with contextlib.suppress(BlockingIOError):
            received += os.read(raw.fileno(), 32_768)
        await asyncio.sleep(0)
        if len(received) > MIB:  # what one read brought before is gone
            held.append(slow.transport.get_write_buffer_size())
    assert 0 < max(held) <= SMALL_BYTES
    body = received.partition(b"\r\n\r\n")[2]
    assert hashlib.sha256(body).digest() == hashlib.sha256(BODY).digest()
    await until(lambda: replica.connections[0].closed)
    idle.abort()
    assert rig.proxy.unread.acts[CUT] == 0


async def test_nothing_is_counted_that_is_gone(rig: Rig, replica: Replica) -> None:
    client = await reader(rig)
    await until(lambda: rig.proxy.unread.held)
    client.abort()
    await until(lambda: not rig.proxy.unread.held)
