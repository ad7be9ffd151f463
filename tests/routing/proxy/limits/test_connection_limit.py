"""A limit on the connections of clients: who makes room for a new one, and who does not."""

import asyncio
import contextlib
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from routing.contract.trusted_proxies import TrustedProxies
from routing.ipc.descriptors import RESERVED_FREE
from routing.proxy.limits import connection_limit
from routing.proxy.limits.connection_limit import (
    HALF_HEAD,
    MAX_CLOSING,
    OVER_SHARE,
    PIPELINED,
    REFUSAL,
    SLOW,
    UNASKED,
    ConnectionLimit,
)
from tests.routing.proxy.raw_client import raw_client
from tests.routing.proxy.rig import (
    OK,
    Client,
    Gate,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_bytes,
    until,
)

GET = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection counts as idle as soon as it is."""
    monkeypatch.setattr(connection_limit, "IDLE_S", 0.0)
    monkeypatch.setattr(connection_limit, "SEARCH_EVERY_S", 0.0)


async def asked(rig: Rig) -> Client:
    """A client that has had an answer, and is idle since."""
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    await asyncio.sleep(0.001)
    return client


async def test_the_one_that_is_idle_longest_makes_room(rig: Rig, replica: Replica) -> None:
    rig.proxy.connection_limit.set(3, sys.maxsize)
    first = await asked(rig)
    async with raw_client(rig) as second:
        second.send(GET)
        assert (await second.received()).endswith(b"ok")
        third = await asked(rig)
        assert (await first.ask(GET)).status == 200
        fourth = await asked(rig)
        assert await second.received() == b""
        for client in (first, third, fourth):
            assert (await client.ask(GET)).status == 200
        limit = rig.proxy.connection_limit
        assert (limit.evicted, limit.refused) == (1, 0)

        # The one that went has no place any more, though its client has not closed.
        assert rig.proxy.clients == 4
        third.writer.close()
        await until(lambda: rig.proxy.clients == 3)
        await asked(rig)
        assert (limit.evicted, limit.refused) == (1, 0)


async def test_one_that_has_said_nothing_yet_makes_room(rig: Rig, replica: Replica) -> None:
    rig.proxy.connection_limit.set(1, sys.maxsize)
    silent = await rig.client()
    await asyncio.sleep(0.001)
    assert (await (await rig.client()).ask(GET)).status == 200
    assert await silent.ends() == b""


async def test_none_in_use_makes_room(rig: Rig, replica: Replica) -> None:
    """Neither a request that waits for its answer, nor an answer that was just begun to be taken."""
    gate = asyncio.Event()

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if seen.line == b"GET /large HTTP/1.1":
            connection.transport.write(OK + b"Content-Length: 16000000\r\n\r\n" + bytes(16_000_000))
            return
        await gate.wait()
        connection.transport.write(OK + b"Content-Length: 2\r\n\r\nok")

    replica.script = script
    waiting, taking = [await rig.client() for _ in range(2)]
    waiting.send(GET)
    taking.writer.transport.pause_reading()  # type: ignore[attr-defined]
    taking.send(GET.replace(b"/", b"/large", 1))
    await until(lambda: len(replica.requests) == 2)
    await asyncio.sleep(0.05)
    rig.proxy.connection_limit.set(2, sys.maxsize)
    for _ in range(3):
        refused = await rig.client()
        refused.send(GET)
        assert await refused.ends() == REFUSAL
    gate.set()
    assert (await waiting.answer()).status == 200
    taking.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert len((await taking.answer()).body) == 16_000_000
    assert rig.proxy.connection_limit.evicted == 0
    assert rig.proxy.connection_limit.refused == 3


async def test_an_answer_that_is_still_being_taken_is_not_given_up(rig: Rig, replica: Replica) -> None:
    """Nothing is in flight any more at the replica, and the client has not read it all."""
    size = 1 << 20
    replica.script = answer_bytes(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
    async with raw_client(rig, receive_buffer=4096) as client:
        await until(lambda: rig.proxy.clients == 1)
        (connection,) = rig.proxy._clients
        kernel_side = connection.transport.get_extra_info("socket")
        kernel_side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.send(GET)
        pool, taken = rig.table.fleets["f"], b""
        while not pool.counters.answered:
            taken += await client.received(1024)
        assert connection.transport.get_write_buffer_size() > 0
        rig.proxy.connection_limit.set(1, sys.maxsize)
        assert await (await rig.client()).ends() == REFUSAL
        while len(taken.partition(b"\r\n\r\n")[2]) < size:
            taken += await client.received(1 << 20)


async def test_those_on_their_way_out_are_bounded(rig: Rig, replica: Replica) -> None:
    """Refused clients that do not close themselves hold no more descriptors than are kept for them."""
    rig.proxy.connection_limit.set(1, sys.maxsize)
    gate = Gate(replica)
    busy = await rig.client()
    busy.send(GET)
    await until(lambda: replica.requests)
    refused = [await rig.client() for _ in range(3 * MAX_CLOSING)]
    for client in refused:
        assert await client.reader.readexactly(len(REFUSAL)) == REFUSAL
    await asyncio.sleep(0.01)
    assert rig.proxy.clients <= 1 + MAX_CLOSING
    gate.open.set()
    assert (await busy.answer()).status == 200


async def test_descriptors_running_short_count_as_no_place(rig: Rig, replica: Replica) -> None:
    first = await asked(rig)
    rig.proxy.connection_limit.set(sys.maxsize, 0)
    second = await asked(rig)
    assert await first.ends() == b""
    gate = Gate(replica)
    second.send(GET)
    await until(lambda: len(replica.requests) == 3)
    assert await (await rig.client()).ends() == REFUSAL
    gate.open.set()
    assert (await second.answer()).status == 200


async def test_descriptors_that_something_else_takes_are_heard_of_within_eight_connections(
    rig: Rig, replica: Replica, tmp_path: Path
) -> None:
    last = 2000
    rig.proxy.connection_limit.set(sys.maxsize, last + RESERVED_FREE)
    await asked(rig)
    with ExitStack() as taken:
        file = taken.enter_context((tmp_path / "file").open("wb"))
        while file.fileno() <= last:
            file = taken.enter_context(os.fdopen(os.dup(file.fileno()), "wb"))
        clients = [await rig.client() for _ in range(UNASKED + 1)]
        for client in clients:
            client.send(GET[:10])
        await asyncio.sleep(0.01)
        limit = rig.proxy.connection_limit
        assert acts(limit) >= 1
        # From then on each is asked.
        before = acts(limit)
        await rig.client()
        await asyncio.sleep(0.01)
        assert acts(limit) == before + 1


def acts(limit: ConnectionLimit) -> int:
    """How many were closed, or refused."""
    return limit.evicted + limit.refused + limit.acts[HALF_HEAD]


# --- half heads, slow clients, many of one address ------------------------------------------------


def places(rig: Rig, most: int) -> ConnectionLimit:
    rig.proxy.connection_limit.set(most, sys.maxsize)
    return rig.proxy.connection_limit


async def test_half_heads_give_way_before_anybody_is_refused(rig: Rig, replica: Replica) -> None:
    """Long before their time is over; idle connections stay."""
    limit = places(rig, 50)
    regular = await asked(rig)
    half = []
    for _ in range(120):
        half.append(await rig.client())
        half[-1].send(GET[:10])
        await asyncio.sleep(0.001)
    assert (await (await rig.client()).ask(GET)).status == 200
    assert (await regular.ask(GET)).status == 200
    assert limit.refused == 0
    assert limit.acts[HALF_HEAD] >= 60
    assert limit.displaced == limit.acts[HALF_HEAD]
    assert limit.is_short(monotonic())
    assert len(limit.heads) <= 50
    assert await half[0].ends() == REFUSAL
    half[-1].send(GET[10:])
    assert (await half[-1].answer()).status == 200


async def test_a_head_that_is_complete_is_pending_no_more(rig: Rig, replica: Replica) -> None:
    limit = places(rig, 50)
    client = await rig.client()
    for _ in range(2):
        client.send(GET[:10])
        await until(lambda: limit.heads.held == 10)
        client.send(GET[10:])
        assert (await client.answer()).status == 200
        assert (len(limit.heads), limit.heads.held) == (0, 0)
    client.send(b"BAD HEAD\n")
    assert (await client.answer()).status == 400
    assert (len(limit.heads), limit.heads.held) == (0, 0)


async def test_half_heads_have_a_bound_of_memory(rig: Rig, replica: Replica) -> None:
    limit = places(rig, 1000)
    limit.heads.most = 100_000
    head = b"GET / HTTP/1.1\r\nHost: a.test\r\nX: " + b"y" * 30_000
    for _ in range(8):
        (await rig.client()).send(head)
    await until(lambda: limit.acts[HALF_HEAD] == 5)
    assert limit.heads.held <= 100_000
    # It is memory that was short.
    assert not limit.is_short(monotonic())


async def test_slow_readers_make_room(rig: Rig, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limit, "SLOW_S", 0.2)
    size = 16_000_000
    replica.script = answer_bytes(OK + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
    limit = places(rig, 3)
    slow = [await rig.client() for _ in range(3)]
    for client in slow:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
    await until(lambda: len(replica.requests) == 3)
    await asyncio.sleep(0.4)
    gate = Gate(replica)
    gate.open.set()
    assert (await (await rig.client()).ask(GET)).status == 200
    assert (limit.acts[SLOW], limit.refused) == (1, 0)
    assert limit.is_short(monotonic())
    # The replica's side is free as well.
    await until(lambda: sum(pool.counters.in_flight for pool in rig.table.fleets.values()) == 2)


async def test_slow_senders_make_room(rig: Rig, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limit, "SLOW_S", 0.2)
    limit = places(rig, 2)
    slow = [await rig.client() for _ in range(2)]
    for client in slow:
        client.send(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9000\r\n\r\nbegun")
    await asyncio.sleep(0.4)
    assert (await (await rig.client()).ask(GET)).status == 200
    assert (limit.acts[SLOW], limit.refused) == (1, 0)
    assert (await slow[0].answer()).status == 408


async def test_an_address_with_many_leaves_the_last_places_to_others(rig: Rig, replica: Replica) -> None:
    """While there are places it may have any number; and alone it may have all."""
    limit = places(rig, 20)
    Gate(replica)
    for _ in range(18):
        (await rig.client()).send(GET)
    await until(lambda: len(replica.requests) == 18)
    (await rig.client()).send(GET)
    await until(lambda: len(replica.requests) == 19)
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.setblocking(False)
        await asyncio.get_running_loop().sock_connect(other, ("127.0.0.1", rig.port))
        await asyncio.get_running_loop().sock_sendall(other, GET)
        await until(lambda: len(replica.requests) == 20)
        rig._clients.pop().abort()
        await until(lambda: len(limit._connections) == 19)
        assert await (await rig.client()).ends() == REFUSAL
        assert (limit.acts[OVER_SHARE], limit.refused) == (1, 1)


async def test_a_trusted_proxy_has_no_share(rig: Rig, replica: Replica) -> None:
    rig.proxy.stand_behind(TrustedProxies(("127.0.0.1/32",)), False)
    limit = places(rig, 20)
    Gate(replica)
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.setblocking(False)
        await asyncio.get_running_loop().sock_connect(other, ("127.0.0.1", rig.port))
        for _ in range(19):
            (await rig.client()).send(GET)
        await until(lambda: len(replica.requests) == 19)
        assert limit.acts[OVER_SHARE] == 0


async def slow_sender(rig: Rig, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port, local_addr=(source, 0))
    writer.write(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9000\r\n\r\nbegun")
    return reader, writer


async def test_slow_ones_of_the_address_with_most_go_first(
    rig: Rig, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though others have been slow for longer; among its own the one that was for longest."""
    monkeypatch.setattr(connection_limit, "SLOW_S", 0.1)
    limit = places(rig, 4)
    limit._plenty = 4  # none gives way before all places are taken
    other = await slow_sender(rig, "127.0.0.2")
    many = []
    for _ in range(3):
        await asyncio.sleep(0.02)
        many.append(await slow_sender(rig, "127.0.0.3"))
    await asyncio.sleep(0.3)
    try:
        assert (await (await rig.client()).ask(GET)).status == 200
        assert (limit.acts[SLOW], limit.refused) == (1, 0)
        async with asyncio.timeout(3):
            assert (await many[0][0].readline()).startswith(b"HTTP/1.1 408 ")
    finally:
        for _, writer in (other, *many):
            writer.transport.abort()


async def test_further_requests_have_a_bound_of_memory(rig: Rig, replica: Replica) -> None:
    """Those of the client that has held its own longest go, with the request in flight."""
    limit = rig.proxy.connection_limit
    limit.pipelined.most = 400_000
    gate = Gate(replica)
    clients = []
    for number in range(5):
        clients.append(await rig.client())
        clients[-1].send(GET * 3000)
        await until(lambda: len(limit.pipelined) + limit.acts[PIPELINED] == number + 1)  # noqa: B023
    assert limit.pipelined.held <= 400_000
    assert limit.acts[PIPELINED] >= 1
    with contextlib.suppress(ConnectionError):
        assert await clients[0].ends() == b""
    gate.open.set()
    for _ in range(3000):
        assert (await clients[-1].answer()).status == 200
    assert limit.pipelined.held < 400_000
