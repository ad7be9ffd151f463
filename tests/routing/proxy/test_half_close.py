"""F10: what a client's ending its own direction means, where the fleet's policy allows it and where not."""

import asyncio
import time
from typing import get_args

import pytest

from routing.contract.policy import HalfClose, Policy
from tests.routing.proxy.rig import OK, OK_ANSWER, Client, Replica, ReplicaConnection, Rig, Seen, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n"
MIB = 1 << 20


def policy(half_close: HalfClose) -> Policy:
    return Policy(strategy="round_robin", slow_start_s=0, half_close=half_close)


class Held:
    """A replica that answers only when it is told to."""

    def __init__(self, replica: Replica, answer: bytes = OK_ANSWER) -> None:
        self.replica = replica
        self.gate = asyncio.Event()
        self.answer = answer
        replica.script = self.script

    async def script(self, connection: ReplicaConnection, seen: Seen) -> None:
        await self.gate.wait()
        if not connection.closed:
            connection.transport.write(self.answer)


@pytest.fixture
async def held(rig: Rig, replica: Replica) -> Held:
    """The only replica of the default fleet, which allows half-close."""
    rig.fleet(replica, policy=policy("allow"))
    return Held(replica)


async def sent_and_half_closed(rig: Rig, client: Client, request: bytes = GET) -> None:
    """The proxy has read the end, too."""
    client.send(request)
    await until(lambda: rig.replicas[0].requests)
    (connection,) = rig.proxy._clients
    client.half_close()
    await until(lambda: connection._ending or connection._is_half_closed)  # type: ignore[attr-defined]


@pytest.mark.parametrize("half_close", get_args(HalfClose))
async def test_a_whole_request_and_its_answer(
    rig: Rig, held: Held, client: Client, half_close: HalfClose
) -> None:
    """By default the client counts as gone, and its replica is told at once."""
    rig.fleet(held.replica, policy=policy(half_close))
    await sent_and_half_closed(rig, client)
    if half_close == "abort":
        await until(lambda: not held.replica.open, 0.5)
        assert await client.ends() == b""
    else:
        held.gate.set()
        assert (await client.answer()).body == b"ok"
        assert await client.ends(0.5) == b""
    await until(lambda: rig.proxy.clients == 0, 0.5)
    cancelled = half_close == "abort"
    assert rig.table.fleets["f"].counters.cancelled == cancelled
    assert [one.outcomes.cancelled for one in rig.table.fleets["f"].replicas] == [cancelled]


async def test_the_policy_changes_while_connections_are_open(rig: Rig, held: Held, client: Client) -> None:
    other = await rig.client()
    held.gate.set()
    for one in (client, other):
        assert (await one.ask(GET)).status == 200
    held.gate.clear()
    rig.fleet(held.replica, policy=policy("abort"))
    client.send(GET)
    await until(lambda: len(held.replica.requests) == 3)
    client.half_close()
    assert await client.ends() == b""
    other.send(GET)
    await until(lambda: len(held.replica.requests) == 4)
    rig.fleet(held.replica, policy=policy("allow"))
    other.half_close()
    await asyncio.sleep(0.05)
    held.gate.set()
    assert (await other.answer()).status == 200
    assert await other.ends(0.5) == b""


async def test_a_body_that_came_in_pieces(rig: Rig, held: Held, client: Client) -> None:
    client.send(POST + b"hello")
    await until(lambda: held.replica.connections and held.replica.connections[0].received.endswith(b"hello"))
    await sent_and_half_closed(rig, client, b"world")
    held.gate.set()
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, [b"close"])
    assert held.replica.requests[0].body == b"helloworld"
    assert await client.ends(0.5) == b""


async def test_an_answer_that_goes_on(rig: Rig, held: Held, client: Client) -> None:
    """It has begun before the client ends its direction, and is long."""
    size = 8 * MIB

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await held.gate.wait()
        connection.transport.write(b"%x\r\n" % size + bytes(size) + b"\r\n0\r\n\r\n")

    held.replica.script = script
    client.send(GET)
    await until(lambda: rig.proxy._clients)
    (connection,) = rig.proxy._clients
    await until(lambda: connection.exchange is not None and connection.exchange.streaming_response)  # type: ignore[attr-defined]
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.half_close()
    await until(lambda: connection._is_half_closed)  # type: ignore[attr-defined]
    held.gate.set()
    await until(lambda: connection.write_paused)
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    answer = await client.answer()
    assert (len(answer.body), answer.complete) == (5 + size, True)
    assert await client.ends(0.5) == b""


async def test_an_answer_that_begins_afterwards_says_that_it_is_the_last(
    rig: Rig, held: Held, client: Client
) -> None:
    held.answer = OK + b"Content-Length: %d\r\n\r\n" % (4 * MIB) + bytes(4 * MIB)
    await sent_and_half_closed(rig, client)
    held.gate.set()
    answer = await client.answer()
    assert len(answer.body) == 4 * MIB
    assert answer.get(b"connection") == [b"close"]


async def test_pipelined_requests_are_all_answered(rig: Rig, held: Held, client: Client) -> None:
    """Those that are whole; what is not has no answer."""
    held.gate.set()
    paths = [b"/1", b"/2", b"/v1/models", b"/3"]
    requests = [GET.replace(b"/x", path) for path in paths]
    client.send(b"".join(requests) + POST + b"hal")
    client.half_close()
    for _ in paths:
        assert (await client.answer()).status == 200
    assert await client.ends(0.5) == b""
    assert [seen.line.split()[1] for seen in held.replica.requests] == [b"/1", b"/2", b"/3"]
    other = await rig.client()
    other.send(requests[0] + requests[2])
    other.half_close()
    for _ in range(2):
        assert (await other.answer()).status == 200
    assert await other.ends(0.5) == b""


@pytest.mark.parametrize("request_bytes", [b"", b"GET /x HT", POST + b"hello"], ids=["idle", "head", "body"])
async def test_without_a_whole_request_the_client_is_gone(
    rig: Rig, held: Held, client: Client, request_bytes: bytes
) -> None:
    """C21: nothing is completed that the client has not completed."""
    client.send(request_bytes)
    if request_bytes.startswith(b"POST"):
        await until(lambda: held.replica.connections)
    client.half_close()
    assert await client.ends(0.5) == b""
    await until(lambda: rig.proxy.clients == 0)
    await until(lambda: not held.replica.open)
    assert held.replica.requests == []


async def test_a_reset_is_noticed_while_the_answer_is_waited_for(
    rig: Rig, held: Held, client: Client
) -> None:
    await sent_and_half_closed(rig, client)
    began = time.monotonic()
    client.abort()
    await until(lambda: not held.replica.open)
    assert time.monotonic() - began < 0.1
    assert rig.table.fleets["f"].counters.cancelled == 1


async def test_a_client_that_is_gone_is_noticed_with_the_first_bytes_for_it(
    rig: Rig, held: Held, client: Client
) -> None:
    """It has closed both directions. Until something is sent, the socket cannot tell."""

    async def drip(connection: ReplicaConnection, seen: Seen) -> None:
        await held.gate.wait()
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while not connection.closed:
            connection.transport.write(b"5\r\nhello\r\n")
            await asyncio.sleep(0.01)

    held.replica.script = drip
    client.send(GET)
    await until(lambda: held.replica.requests)
    client.writer.close()
    await asyncio.sleep(0.05)
    assert held.replica.open
    held.gate.set()
    await until(lambda: not held.replica.open, 0.5)
    assert rig.table.fleets["f"].counters.cancelled == 1


async def upload_to_one_that_does_not_read(rig: Rig, held: Held, client: Client) -> list[ReplicaConnection]:
    """The end of the client's direction waits behind bytes that the proxy does not read."""
    stopped: list[ReplicaConnection] = []

    def stop(connection: ReplicaConnection, data: bytes) -> None:
        if not stopped:
            stopped.append(connection)
            connection.transport.pause_reading()

    held.replica.on_data = stop
    size = 24 * MIB
    client.send(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
    client.half_close()
    await until(lambda: rig.proxy._clients)
    (connection,) = rig.proxy._clients
    await until(lambda: stopped and connection._read_pause._paused_for)  # type: ignore[attr-defined]
    return stopped


async def test_an_end_behind_a_body_that_is_not_read_yet(rig: Rig, held: Held, client: Client) -> None:
    (connection,) = await upload_to_one_that_does_not_read(rig, held, client)
    await asyncio.sleep(0.05)
    held.gate.set()
    connection.transport.resume_reading()
    assert (await client.answer(limit_s=20)).status == 200
    assert len(held.replica.requests[0].body) == 24 * MIB
    assert await client.ends(0.5) == b""


async def test_a_reset_behind_a_body_that_is_not_read(rig: Rig, held: Held, client: Client) -> None:
    await upload_to_one_that_does_not_read(rig, held, client)
    client.abort()
    await until(lambda: rig.proxy.clients == 0, 0.5)
    await until(lambda: rig.proxy.upstreams == 0)


async def test_a_web_socket_ends_with_its_client(rig: Rig, held: Held, client: Client) -> None:
    asked = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    client.send(asked + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    await until(lambda: held.replica.requests)
    client.half_close()
    await until(lambda: not held.replica.open, 0.5)
