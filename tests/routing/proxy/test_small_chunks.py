"""Request bodies in thousands of small chunks: decoded a little at a time, others are served meanwhile."""

import asyncio
import itertools
import socket

import pytest

from routing.http.deferred_chunks import SLICE
from routing.http.read_turns import AT_ONCE
from tests.routing.proxy.exchange.test_backpressure import small_kernel_buffer
from tests.routing.proxy.rig import Client, Replica, Rig, until

UPLOAD = b"POST /p HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
CHUNKS = 20_000
PAYLOAD = b"".join(b"%08d" % number for number in range(CHUNKS))
CHUNKED = b"".join(b"8\r\n%08d\r\n" % number for number in range(CHUNKS))
LAST = b"0\r\n\r\n"


async def test_all_of_it_arrives_and_what_follows_is_served(replica: Replica, client: Client) -> None:
    client.send(UPLOAD + CHUNKED + LAST + GET)
    assert (await client.answer()).status == 200
    assert (await client.answer()).status == 200
    assert [seen.body for seen in replica.requests] == [PAYLOAD, b""]


@pytest.mark.parametrize("first", [0, 100])
async def test_others_are_served_between_slices(rig: Rig, replica: Replica, first: int) -> None:
    """Whether the small chunks come with the head, or in a later read."""
    clients = [await rig.client() for _ in range(30)]
    other = await rig.client()
    assert (await other.ask(GET)).status == 200
    for one in clients:
        one.send(UPLOAD + CHUNKED[:first])
    if first:
        await until(lambda: len(replica.connections) >= len(clients))
    taken = [0]
    going_on = True

    async def watch() -> None:
        while going_on:
            bodies = [client._body for client in rig.proxy._clients]  # type: ignore[attr-defined]
            taken.append(sum(body.received for body in bodies if body is not None))
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    for one in clients:
        one.send(CHUNKED[first:])
    await until(lambda: taken[-1] > 10 * SLICE)
    assert (await other.ask(GET)).status == 200
    assert taken[-1] < len(clients) * len(PAYLOAD) / 2
    going_on = False
    await watching
    assert max(after - before for before, after in itertools.pairwise(taken)) <= AT_ONCE * SLICE
    for one in clients:
        one.abort()


async def test_a_bad_chunk_among_them_is_refused(client: Client) -> None:
    client.send(UPLOAD + CHUNKED + b"what?\r\n")
    answer = await client.answer()
    assert (answer.status, b'"bad_chunk"' in answer.body) == (400, True)
    assert await client.ends() == b""


async def test_a_replica_that_takes_nothing_holds_it_up(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(UPLOAD + b"1\r\nx\r\n")
    await until(lambda: replica.connections and replica.connections[0].received)
    replica.connections[0].transport.pause_reading()
    raw = replica.connections[0].transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    (served,) = rig.proxy._clients
    small_kernel_buffer(served.exchange.upstream.transport)  # type: ignore[attr-defined]
    client.send(CHUNKED * 4)
    await until(lambda: served._deferred is not None and served._deferred.misses_turn)  # type: ignore[attr-defined]
    replica.connections[0].transport.resume_reading()
    client.send(LAST)
    assert (await client.answer()).status == 200
    assert replica.requests[0].body == b"x" + PAYLOAD * 4


async def test_a_response_before_its_end_ends_it(rig: Rig, replica: Replica, client: Client) -> None:
    """What is left is dropped, and so is what still comes."""
    rig.fleet(name="refusing")
    client.send(UPLOAD.replace(b"/p", b"/fleets/refusing/p") + CHUNKED)
    assert (await client.answer()).status == 503
    client.send(CHUNKED)
    assert await client.ends() == b""
    await until(lambda: not len(rig.proxy.connection_limit.pipelined))
