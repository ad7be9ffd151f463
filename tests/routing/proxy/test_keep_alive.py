"""Connections are used again on both sides, and closed when they should be."""

import asyncio

import pytest

from routing.contract.policy import Limits as BodyLimits
from routing.contract.policy import Policy, Timeouts
from routing.http.limits import ConnectionLimits
from routing.proxy import ProxySettings
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

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"


async def test_one_connection_serves_many_requests(rig: Rig, replica: Replica, client: Client) -> None:
    for _ in range(50):
        assert (await client.ask(GET)).status == 200
    assert len(replica.connections) == 1
    assert rig.proxy.upstreams == 1


async def test_a_repeated_head_with_another_body(rig: Rig, replica: Replica, client: Client) -> None:
    """The head is known, the body is not; then another head on the same connection."""
    head = b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n"
    for body in (b"hello", b"world", b"12345"):
        client.send(head + body)
        assert (await client.answer()).status == 200
    client.send(head)
    await asyncio.sleep(0)
    client.send(b"later")
    assert (await client.answer()).status == 200
    client.send(head[:-2])
    await asyncio.sleep(0)
    client.send(b"X: 1\r\n\r\nother")
    assert (await client.answer()).status == 200
    assert [seen.body for seen in replica.requests] == [b"hello", b"world", b"12345", b"later", b"other"]
    assert replica.requests[-1].get(b"x") == [b"1"]


async def test_the_connection_used_last_is_used_first(rig: Rig, replica: Replica) -> None:
    clients = [await rig.client() for _ in range(4)]
    gate = asyncio.Event()

    async def wait(connection: ReplicaConnection, seen: Seen) -> None:
        await gate.wait()
        connection.transport.write(OK_ANSWER)

    replica.script = wait
    for client in clients:
        client.send(GET)
    await until(lambda: len(replica.requests) == 4)
    gate.set()
    for client in clients:
        await client.answer()
    used = set()
    for _ in range(5):
        await clients[0].ask(GET)
        used.add(replica.requests[-1].connection)
    assert len(used) == 1
    assert len(replica.open) == 4


async def test_idle_connections_are_bounded_and_closed_in_time(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(idle_connections=2, idle_connection_s=0.3))
    replica = await rig.replica()
    rig.fleet(replica)
    gate = asyncio.Event()

    async def wait(connection: ReplicaConnection, seen: Seen) -> None:
        await gate.wait()
        connection.transport.write(OK_ANSWER)

    replica.script = wait
    clients = [await rig.client() for _ in range(5)]
    for client in clients:
        client.send(GET)
    await until(lambda: len(replica.requests) == 5)
    gate.set()
    for client in clients:
        assert (await client.answer()).status == 200
    await until(lambda: len(replica.open) == 2)
    await until(lambda: not replica.open, 2.0)
    assert rig.proxy.upstreams == 0


@pytest.mark.row("F15")
async def test_pipelined_requests_are_answered_in_order(rig: Rig, replica: Replica, client: Client) -> None:
    """In one write, and however many there are: what is held of them stays within bounds."""
    count, most_held = 10_000, 0
    await until(lambda: rig.proxy._clients)
    (connection,) = rig.proxy._clients

    async def echo(asked: ReplicaConnection, seen: Seen) -> None:
        nonlocal most_held
        most_held = max(most_held, len(connection._held) - connection._held_at)
        body = seen.line.split(b" ")[1]
        asked.transport.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    replica.script = echo
    fields = b" HTTP/1.1\r\nHost: a.test\r\nX-A: " + b"a" * 100 + b"\r\n\r\n"
    client.send(b"".join(b"GET /%d%b" % (at, fields) for at in range(count)))
    for at in range(count):
        assert (await client.answer(limit_s=60)).body == b"/%d" % at
    # What may be held, and what one read brings besides; all of them are 1.4 MB.
    assert 65_536 < most_held <= 65_536 + 262_144
    assert [seen.line for seen in replica.requests] == [b"GET /%d HTTP/1.1" % n for n in range(count)]
    assert len(replica.connections) == 1


async def test_pipelined_requests_answered_locally(rig: Rig, replica: Replica, client: Client) -> None:
    """Answers that need no replica do not pile up on the stack."""
    client.send(b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n" * 2000)
    for _ in range(2000):
        assert (await client.answer()).status == 200


@pytest.mark.parametrize("half_closes", [False, True])
async def test_others_are_served_between_pipelined_requests(
    rig: Rig, replica: Replica, half_closes: bool
) -> None:
    """However many come in one piece, and whoever sends them: with a wrong key, or without one."""
    count = 2000
    many, other = await rig.client(), await rig.client()
    many.send(b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n" * count)
    if half_closes:
        many.writer.write_eof()
    other.send(b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert (await other.answer()).status == 200
    assert any(one._held for one in rig.proxy._clients), "the other one had to wait for all of them"
    for _ in range(count):
        assert (await many.answer()).status == 200
    if half_closes:
        assert await many.reader.read() == b""


@pytest.mark.row("F15")
async def test_held_bytes_are_bounded(rig: Rig, replica: Replica, client: Client) -> None:
    async def hang(connection: ReplicaConnection, seen: Seen) -> None:
        pass

    replica.script = hang
    client.send(GET * 200_000)
    left = client.writer.transport.get_write_buffer_size
    await until(lambda: replica.requests)
    before = -1
    while left() != before:
        before = left()
        for _ in range(30):
            await asyncio.sleep(0.002)
    assert left() > 0
    (one,) = rig.proxy._clients
    assert len(one._held) <= 65_536 + 262_144


@pytest.mark.row("F12")
async def test_idle_client_connection_is_closed(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(keep_alive_s=0.3)))
    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    assert await client.ends(2.0) == b""


@pytest.mark.row("F01")
async def test_silent_client_is_closed_without_a_word(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(timeouts=Timeouts(head_s=0.3)))
    client = await rig.client()
    assert await client.ends(2.0) == b""
    assert replica.connections == []


@pytest.mark.row("F02")
async def test_slow_head_is_answered_408(rig: Rig) -> None:
    """The limit is absolute: bytes that trickle in do not extend it."""
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(timeouts=Timeouts(head_s=0.4)))
    client = await rig.client()
    answer = asyncio.ensure_future(client.answer(limit_s=3.0))
    for byte in GET[:-1]:
        if answer.done():
            break
        client.send(bytes([byte]))
        await asyncio.sleep(0.05)
    assert (await answer).status == 408
    assert await client.ends() == b""
    assert replica.connections == []


@pytest.mark.row("F03")
async def test_slow_body_is_answered_408(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(timeouts=Timeouts(body_grace_s=0.4)))
    client = await rig.client()
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n")
    answer = asyncio.ensure_future(client.answer(limit_s=5.0))
    while not answer.done():
        client.send(b"x")
        await asyncio.sleep(0.05)
    assert (await answer).status == 408
    assert await client.ends(2.0) == b""
    await until(lambda: not replica.open)


@pytest.mark.row("F04", "F05")
async def test_body_over_the_limit(rig: Rig) -> None:
    """A length that is announced, and bytes that came."""
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(limits=BodyLimits(max_body_bytes=1000)))
    for request in (
        b"Content-Length: 1001\r\n\r\n",
        b"Content-Length: 1001\r\n\r\n" + bytes(1001),
        b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + bytes(100) + b"\r\n" + b"3e8\r\n" + bytes(1000),
    ):
        client = await rig.client()
        client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\n" + request)
        assert (await client.answer()).status == 413
        assert await client.ends() == b""
    await until(lambda: not [one for one in replica.open if one.incomplete])
    assert replica.requests == []


async def test_draining(rig: Rig, replica: Replica, client: Client) -> None:
    """A running answer completes and closes, a new one is told to close, idle connections end at last."""
    idle = await rig.client()
    assert (await idle.ask(GET)).status == 200
    gate = asyncio.Event()

    async def wait(connection: ReplicaConnection, seen: Seen) -> None:
        await gate.wait()
        connection.transport.write(OK_ANSWER)

    replica.script = wait
    client.send(GET)
    await until(lambda: len(replica.requests) == 2)
    rig.proxy.drain()
    assert rig.proxy.leave(0.0)
    assert await idle.ends() == b""
    assert not rig.proxy.idle()
    late = await rig.client()
    late.send(GET)
    await until(lambda: len(replica.requests) == 3)
    gate.set()
    for one in (client, late):
        answer = await one.answer()
        assert answer.get(b"connection") == [b"close"]
        assert await one.ends() == b""
    await until(rig.proxy.idle)
