"""A limit on the connections of clients: who makes room for a new one, and who does not."""

import asyncio
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from routing.ipc.descriptors import RESERVED_FREE
from routing.proxy.limits import connection_limit
from routing.proxy.limits.connection_limit import MAX_CLOSING, REFUSAL, UNASKED
from tests.routing.proxy.raw_client import raw_client
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, answer_bytes, until

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
    """Neither a request that waits for its answer, nor one half sent, nor an answer half taken."""
    gate = asyncio.Event()

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if seen.line == b"GET /large HTTP/1.1":
            connection.transport.write(OK + b"Content-Length: 16000000\r\n\r\n" + bytes(16_000_000))
            return
        await gate.wait()
        connection.transport.write(OK + b"Content-Length: 2\r\n\r\nok")

    replica.script = script
    waiting, half, taking = [await rig.client() for _ in range(3)]
    waiting.send(GET)
    half.send(GET[:10])
    taking.writer.transport.pause_reading()  # type: ignore[attr-defined]
    taking.send(GET.replace(b"/", b"/large", 1))
    await until(lambda: len(replica.requests) == 2)
    await asyncio.sleep(0.05)
    rig.proxy.connection_limit.set(3, sys.maxsize)
    for _ in range(3):
        refused = await rig.client()
        refused.send(GET)
        assert await refused.ends() == REFUSAL
    gate.set()
    assert (await waiting.answer()).status == 200
    half.send(GET[10:])
    assert (await half.answer()).status == 200
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
    busy = await rig.client()
    busy.send(GET[:10])
    await asyncio.sleep(0.01)
    refused = [await rig.client() for _ in range(3 * MAX_CLOSING)]
    for client in refused:
        assert await client.reader.readexactly(len(REFUSAL)) == REFUSAL
    await asyncio.sleep(0.01)
    assert rig.proxy.clients <= 1 + MAX_CLOSING
    busy.send(GET[10:])
    assert (await busy.answer()).status == 200


async def test_descriptors_running_short_count_as_no_place(rig: Rig, replica: Replica) -> None:
    first = await asked(rig)
    rig.proxy.connection_limit.set(sys.maxsize, 0)
    second = await asked(rig)
    assert await first.ends() == b""
    second.send(GET[:10])
    await asyncio.sleep(0.01)
    assert await (await rig.client()).ends() == REFUSAL
    second.send(GET[10:])
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
        assert limit.evicted + limit.refused >= 1
        # From then on each is asked.
        before = limit.evicted + limit.refused
        await rig.client()
        await asyncio.sleep(0.01)
        assert limit.evicted + limit.refused == before + 1
