"""A listener with the PROXY protocol: before TLS, in the time of a head, within the connection limit."""

import asyncio
import time
from pathlib import Path

import pytest

from routing.contract.policy import Policy, Timeouts
from routing.contract.trusted_proxies import TrustedProxies
from routing.proxy import ProxySettings
from routing.proxy.limits.connection_limit import REFUSAL
from routing.tls.certificate import server_context
from tests.certificates import make_certificate
from tests.routing.proxy.rig import LIMIT_S, Replica, Rig, StartRig, until

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


async def test_connections_in_their_header_count(listener: Rig, replica: Replica) -> None:
    listener.proxy.connection_limit.set(2, 1 << 20)
    writers = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(HEADER[:5])
        writers.append(writer)
    await until(lambda: len(listener.proxy.handshakes) == 2)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(HEADER + GET)
    assert await ends(reader) == REFUSAL
    for each in (*writers, writer):
        each.transport.abort()
    await until(lambda: not listener.proxy.handshakes)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(HEADER + GET)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.transport.abort()
