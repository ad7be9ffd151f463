"""Every response case three ways: at once, on connections that have served a request before, byte by byte."""

import asyncio
import re
from dataclasses import replace

import pytest

from routing.http import upstream_pool
from routing.proxy import ProxySettings
from tests.routing.proxy.cases.response import BARE, OK_ANSWER, Case
from tests.routing.proxy.cases.response_bodies import BODIES, EVIL
from tests.routing.proxy.cases.response_heads import HEADS
from tests.routing.proxy.rig import (
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Script,
    Seen,
    StartRig,
    answer_bytes,
    reset,
    undated,
    until,
)
from tests.routing.proxy.segments import NotedUpstream, write_bytewise
from tests.sampling import one_in

CASES = HEADS + BODIES
CANARY = b"GET /canary HTTP/1.1\r\nHost: a.test\r\n\r\n"
ADDED = b"\r\nVia: 1.1 switchyard\r\nx-switchyard-replica: r0\r\nX-Request-Id: "
_ENDING = re.compile(
    rb"[0-9a-f]{24}(\r\nContent-Length: [0-9]+|\r\nTransfer-Encoding: chunked)?"
    rb"(\r\nConnection: close)?\r\n\r\n\Z"
)
"""What may follow: the request's id, and how the body is framed where the replica gave no length."""

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
each_in_another_way = pytest.mark.parametrize("case", one_in(5, CASES), ids=lambda case: case.id)


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    """Closes no connection to a replica for being idle: what is closed was closed for its bytes."""
    return await start_rig(ProxySettings(idle_connection_s=600))


@pytest.fixture
def upstreams(monkeypatch: pytest.MonkeyPatch) -> dict[int, NotedUpstream]:
    """The proxy's side of each connection to a replica, by its port."""
    NotedUpstream.by_port.clear()
    monkeypatch.setattr(upstream_pool, "UpstreamConnection", NotedUpstream)
    return NotedUpstream.by_port


def answer_bytewise(answer: bytes, then: str, upstreams: dict[int, NotedUpstream]) -> Script:
    """As :func:`answer_bytes`, one byte per segment."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        port = connection.transport.get_extra_info("peername")[1]
        await write_bytewise(connection.transport, upstreams[port], answer)
        if then == "fin":
            connection.transport.close()
        elif then == "rst":
            reset(connection.transport)

    return script


@each_case
async def test_at_once(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(case.sent, case.then)
    await judge(case, rig, replica, client)


@each_in_another_way
async def test_after_a_good_response(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(CANARY)).body == b"ok"
    replica.script = answer_bytes(case.sent, case.then)
    await judge(case, rig, replica, client)


@each_in_another_way
async def test_byte_by_byte(
    case: Case, rig: Rig, replica: Replica, client: Client, upstreams: dict[int, NotedUpstream]
) -> None:
    begun = None if case.begun is None else replace(case, gets=BARE, body=case.begun, complete=False)
    replica.script = answer_bytewise(case.sent, case.then, upstreams)
    await judge(case, rig, replica, client, begun)


async def judge(case: Case, rig: Rig, replica: Replica, client: Client, begun: Case | None = None) -> None:
    """``begun``: what the case is once its head was forwarded. A head without a byte of its body is held for
    some milliseconds, so that a fault right behind it may be found before or after."""
    client.send(b"%b /x HTTP/%b\r\nHost: a.test\r\n\r\n" % (case.method, case.version))
    if case.version == b"1.1":
        for head in case.before:
            assert (await client.answer()).head == head + b"\r\n\r\n"
    answer = await client.answer(case.method)
    if begun is not None and (begun.body or answer.status < 500):
        case = begun
    if case.gets:
        assert (b"\r\nDate: " in answer.head) == (answer.status >= 200), answer.head
        told = undated(answer.head)
        assert told.startswith(case.gets + ADDED), answer.head
        ending = _ENDING.match(told, len(case.gets + ADDED))
        assert ending is not None, answer.head
        assert (answer.body, answer.complete) == (case.body, case.complete)
    else:
        assert (answer.status, answer.complete) == (502, True)
        assert answer.get(b"x-switchyard-replica") == []
    await judge_client(case, client, answer.get(b"connection") == [b"close"])
    await judge_replica(case, rig, replica)


async def judge_client(case: Case, client: Client, told_to_close: bool) -> None:
    """Its connection ends where the answer is cut, or said so; else it serves on."""
    assert told_to_close or case.version == b"1.1"
    if told_to_close or not case.complete:
        assert await client.ends() == b""
    else:
        # Answered by the proxy itself, so that no replica's connection is touched.
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n")
        assert (await client.answer()).status == 200


async def judge_replica(case: Case, rig: Rig, replica: Replica) -> None:
    """A connection that may not be used again is closed; the next client gets a clean answer."""
    first = replica.connections[0]
    if not case.reused:
        await until(lambda: first.closed)
    replica.script = answer_bytes(OK_ANSWER)
    other = await rig.client()
    answer = await other.ask(CANARY)
    assert (answer.status, answer.body) == (200, b"ok")
    assert (replica.requests[-1].connection is first) == case.reused


@pytest.mark.parametrize("way", ["at once", "byte by byte", "after another"])
@pytest.mark.row("E17")
async def test_late_unsolicited_response(
    way: str, rig: Rig, replica: Replica, client: Client, upstreams: dict[int, NotedUpstream]
) -> None:
    """Bytes on an idle connection make it useless; nobody ever gets them."""
    for _ in range(2 if way == "after another" else 1):
        assert (await client.ask(CANARY)).body == b"ok"
    idle = replica.connections[0]
    if way == "byte by byte":
        port = idle.transport.get_extra_info("peername")[1]
        await write_bytewise(idle.transport, upstreams[port], EVIL)
    else:
        idle.transport.write(EVIL)
    await until(lambda: idle.closed)
    assert (await client.ask(CANARY)).body == b"ok"
    assert replica.requests[-1].connection is not idle


async def test_a_response_that_was_asked_to_continue(rig: Rig, replica: Replica, client: Client) -> None:
    """The client's 100 is the proxy's; what the replica says besides is passed on."""
    replica.script = answer_bytes(b"HTTP/1.1 100 Continue\r\n\r\n" + OK_ANSWER)
    client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert (await client.answer()).status == 100
    client.send(b"hello")
    assert (await client.answer()).status == 100
    assert (await client.answer()).body == b"ok"


async def test_head_split_anywhere(rig: Rig, replica: Replica, client: Client) -> None:
    """A response head that arrives in two segments, cut at each place."""
    whole = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok"
    for cut in range(1, len(whole)):

        async def script(connection: ReplicaConnection, seen: Seen, cut: int = cut) -> None:
            connection.transport.write(whole[:cut])
            await asyncio.sleep(0)
            connection.transport.write(whole[cut:])

        replica.script = script
        client.send(CANARY)
        assert (await client.answer()).status == 103
        answer = await client.answer()
        assert (answer.status, answer.body, answer.get(b"x-a")) == (200, b"ok", [b"1"])
