"""A listener with the PROXY protocol: before TLS, in the time of a head, within the connection limit."""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from routing.contract.policy import Policy, Timeouts
from routing.contract.trusted_proxies import TrustedProxies
from routing.proxy import ProxySettings
from routing.proxy.limits.connection_limit import HALF_HEAD, OVER_SHARE, REFUSAL
from routing.tls.certificate import server_context
from tests.certificates import make_certificate
from tests.routing.proxy.rig import LIMIT_S, Gate, Replica, Rig, StartRig, until

HEADER = b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.fixture
async def listener(start_rig: StartRig) -> Rig:
    rig = await start_rig(ProxySettings())
    rig.proxy.stand_behind(TrustedProxies(), True)
    # The rig's own makes the connections that its clients are noted by.
    rig._server.close()
    loop = asyncio.get_running_loop()
    rig._server = await loop.create_server(rig.proxy.connection, "127.0.0.1", 0)
    rig.port = rig._server.sockets[0].getsockname()[1]
    return rig


@pytest.fixture
async def replica(listener: Rig) -> Replica:
    replica = await listener.replica()
    listener.fleet(replica)
    return replica


async def ends(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_it_stands_before_tls(listener: Rig, replica: Replica, tmp_path: Path) -> None:
    pair = make_certificate(tmp_path)
    listener.proxy.speak_tls(server_context(pair.certificate.read_bytes(), pair.key.read_bytes()))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(HEADER)
    await writer.start_tls(pair.trusting(), server_hostname="127.0.0.1")
    writer.write(GET)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert replica.requests[0].get(b"x-forwarded-for") == [b"198.51.100.7"]
    assert replica.requests[0].get(b"x-forwarded-proto") == [b"https"]
    writer.transport.abort()


async def test_half_a_header_ends_within_the_time_of_a_head(listener: Rig, replica: Replica) -> None:
    listener.fleet(replica, policy=Policy(timeouts=Timeouts(head_s=0.3)))
    for begun in (b"", HEADER[:20], b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x01"):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(begun)
        since = time.monotonic()
        assert await ends(reader) == b""
        assert 0.2 < time.monotonic() - since < 5
        writer.close()
    await until(lambda: listener.proxy.idle())


async def served(port: int, request: bytes) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    return writer


async def test_connections_in_their_header_give_way(listener: Rig, replica: Replica) -> None:
    """Before anybody is refused, as those with half a head do."""
    limit = listener.proxy.connection_limit
    limit.set(2, 1 << 20)
    begun = []
    for _ in range(6):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        begun.append((reader, writer))
        writer.write(HEADER[:5])
        await asyncio.sleep(0.02)
    assert len(listener.proxy.handshakes) == 2
    # One place stays with who is served in it.
    kept = [await served(listener.port, HEADER + GET) for _ in range(2)]
    assert (limit.refused, limit.acts[HALF_HEAD]) == (0, 6)
    for reader, _ in begun:
        assert await ends(reader) == b""
    for writer in (*kept, *(writer for _, writer in begun)):
        writer.transport.abort()


async def test_the_share_is_of_the_address_in_the_header(listener: Rig, replica: Replica) -> None:
    """Not of the load balancer, from which all come."""
    limit = listener.proxy.connection_limit
    limit.set(16, 1 << 20)
    other = HEADER.replace(b"198.51.100.7", b"198.51.100.8")
    gate = Gate(replica)
    writers = []
    for number in range(12):
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write((HEADER if number else other) + GET)
        writers.append(writer)
        await until(partial(begun_by, replica, number + 1))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(HEADER + GET)
    assert await ends(reader) == REFUSAL
    assert limit.acts[OVER_SHARE] == 1
    gate.open.set()
    writers.append(await served(listener.port, other + GET))
    for each in (*writers, writer):
        each.transport.abort()


def begun_by(replica: Replica, number: int) -> bool:
    return len(replica.requests) == number
