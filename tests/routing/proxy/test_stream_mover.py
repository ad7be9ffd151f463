"""A replica that is drained with ``move`` is soon free: its streams go on elsewhere."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from routing.balancing.replica.state import Replica as PoolReplica
from routing.contract.moving import STAYS
from routing.protocols.continuation.refusal import CAUSES
from routing.proxy import stream_mover
from routing.proxy.exchange import moving
from tests.routing.protocols.continuation.streams import Read
from tests.routing.proxy.exchange.continuation.telling import (
    USAGE,
    Part,
    chunk,
    drain,
    in_pool,
    parts,
    request,
    uninterrupted,
)
from tests.routing.proxy.rig import Client, ReplicaConnection, Rig, Seen, until
from tests.routing.proxy.rig import Replica as Server

BEGUN = 4
"""Events that a stream has had when it is moved."""


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_mover, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(stream_mover, "IDLE_LOOK_EVERY_S", 0.01)


def counters(rig: Rig) -> Any:
    return rig.table.fleets["f"].counters


def survey(rig: Rig) -> None:
    for _ in rig.proxy.stream_mover.survey():
        pass


def server(rig: Rig, replica: PoolReplica) -> Server:
    (found,) = [one for one in rig.replicas if one.url == replica.spec.url]
    return found


async def begun(rig: Rig, client: Client, part: Part, **fields: Any) -> PoolReplica:
    """A stream has begun, and goes no further by itself. The replica at which it is."""
    before = {one: one.in_flight for one in in_pool(rig)}
    part.events, part.breaks = BEGUN, "silent"
    client.send(request(**fields))
    await part.told.wait()
    (here,) = [one for one in in_pool(rig) if one.in_flight > before[one]]
    exchanges = list(stream_mover.requests_at(here))
    await until(lambda: all(one.streaming_response is not None for one in exchanges))
    return here


async def test_a_stream_goes_on_at_another(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig)
    here = await begun(rig, client, first, **USAGE)
    drain(rig, here)
    answer = await client.answer(b"POST")
    assert answer.complete
    read, whole = Read(answer.body), Read(uninterrupted(first, **USAGE))
    assert read.text == whole.text
    assert read.usages == whole.usages
    assert read.comments == [b": continued by another replica"]
    assert len(second.asked) == 1
    assert here.in_flight == 0
    assert (here.failed, here.outcomes.cancelled) == (0, 1)
    fleet = counters(rig)
    assert (fleet.moved, fleet.continued, fleet.retries, fleet.errors) == (1, 0, 0, 0)
    assert fleet.moved_prompt_tokens == here.moves.moved_prompt_tokens > 3


async def test_without_move_it_ends_where_it_began(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig)
    first.may_break.clear()
    here = await begun(rig, client, first)
    first.breaks = "rst"
    drain(rig, here, move=False)
    survey(rig)
    assert here.moves.movable == 1
    assert not second.asked
    first.may_break.set()
    await client.answer(b"POST")
    assert counters(rig).moved == 0
    assert counters(rig).continued == 1


async def test_it_waits_until_another_has_room(rig: Rig, client: Client) -> None:
    """And goes on meanwhile where it is."""
    first, second, third, *_ = await parts(rig, max_concurrency=1)
    here = await begun(rig, client, first)
    other = await Client.open(rig.port)
    there = await begun(rig, other, second)
    assert here is not there
    drain(rig, here)
    survey(rig)
    await until(lambda: rig.proxy.stream_mover._timer is not None)
    assert (here.moves.movable, here.moves.staying, here.moves.moved) == (1, {}, 0)
    assert not third.asked
    other.abort()
    answer = await client.answer(b"POST")
    assert Read(answer.body).text == first.model.text
    assert counters(rig).moved == 1


async def test_it_takes_no_place_of_one_that_waits(rig: Rig, client: Client) -> None:
    first, second, third, fourth = await parts(rig, max_concurrency=1)
    here = await begun(rig, client, first)
    busy, waiting = await Client.open(rig.port), await Client.open(rig.port)
    await begun(rig, busy, second)
    waiting.send(request())
    await until(lambda: rig.table.fleets["f"].admission.has_waiters)
    drain(rig, here)
    third.model.prompt_tokens = fourth.model.prompt_tokens = 99
    busy.abort()
    assert (await waiting.answer(b"POST")).complete
    assert (await client.answer(b"POST")).complete
    assert len(third.asked[0]["messages"]) == 1  # the one that had waited
    assert len(fourth.asked[0]["messages"]) == 2


async def test_to_undo_the_drain_ends_it(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig, max_concurrency=1)
    first.may_break.clear()
    here = await begun(rig, client, first)
    other = await Client.open(rig.port)
    await begun(rig, other, second)
    drain(rig, here)
    await until(lambda: rig.proxy.stream_mover._timer is not None)
    drain(rig)
    other.abort()
    await until(lambda: sum(one.in_flight for one in in_pool(rig)) == 1)
    await until(lambda: rig.proxy.stream_mover._timer is None)
    assert here.in_flight == 1
    assert counters(rig).moved == 0


async def test_one_that_was_left_can_be_gone_back_to(rig: Rig, client: Client) -> None:
    """Two replicas that are drained one after the other, as when a fleet is rolled."""
    first, second, third, *_ = await parts(rig)
    here = await begun(rig, client, first)
    second.events, second.breaks = 2, "silent"
    drain(rig, here)
    await second.told.wait()
    (there,) = [one for one in in_pool(rig) if one.in_flight]
    (exchange,) = stream_mover.requests_at(there)
    await until(lambda: exchange.streaming_response.continued == 1)  # type: ignore[union-attr]
    drain(rig, there)
    answer = await client.answer(b"POST")
    assert Read(answer.body).text == first.model.text
    assert third.asked
    assert counters(rig).moved == 2
    assert here.moves.moved == there.moves.moved == 1


async def test_not_more_often_than_a_stream_may_be(
    rig: Rig, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_MOVES", 1)
    first, second, *_ = await parts(rig)
    here = await begun(rig, client, first)
    second.events, second.breaks = 2, "silent"
    drain(rig, here)
    await second.told.wait()
    (there,) = [one for one in in_pool(rig) if one.in_flight]
    drain(rig, there)
    survey(rig)
    assert there.moves.staying == {"moves": 1}


@pytest.mark.parametrize("fails", ["rst", "503"])
async def test_one_whose_new_replica_fails_is_continued_as_any_other(
    rig: Rig, client: Client, fails: str
) -> None:
    """With all the attempts that a request has."""
    told = await parts(rig, count=4)
    here = await begun(rig, client, told[0])
    for part in told[1:3]:
        if fails == "503":
            part.refuses = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"
        else:
            part.events = 1
    drain(rig, here)
    answer = await client.answer(b"POST")
    assert answer.complete
    assert Read(answer.body).text == told[0].model.text
    fleet = counters(rig)
    assert fleet.moved == 1
    assert fleet.continued == (1 if fails == "503" else 2)


async def test_one_whose_new_replica_refuses_ends_with_an_error_event(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig)
    here = await begun(rig, client, first)
    second.refuses = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"
    drain(rig, here)
    answer = await client.answer(b"POST")
    assert not answer.complete
    assert b"[DONE]" not in answer.body
    *_, last = answer.body[:-2].split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "not_continued"
    assert counters(rig).not_continued == {"refused": 1}


async def test_one_that_has_not_begun_is_sent_again_as_it_was(rig: Rig, client: Client) -> None:
    """Also where the policy does not continue streams."""
    first, second, *_ = await parts(rig, continuation="off")
    servers = [server(rig, one) for one in in_pool(rig)]
    before = servers[0].script
    asked = asyncio.Event()

    async def never(connection: ReplicaConnection, seen: Seen) -> None:
        asked.set()

    servers[0].script = servers[1].script = never
    client.send(request(**USAGE))
    await asked.wait()
    (here,) = [one for one in in_pool(rig) if one.in_flight]
    servers[0].script = servers[1].script = before
    drain(rig, here)
    answer = await client.answer(b"POST")
    assert Read(answer.body).text == first.model.text
    assert not Read(answer.body).comments
    assert first.asked == [json.loads(request(**USAGE).partition(b"\r\n\r\n")[2])]
    assert counters(rig).moved == 1
    assert not second.asked


async def test_not_many_at_once(rig: Rig) -> None:
    """A replica that owes some of them their first token gets no more."""
    count = stream_mover.MOST_UNDER_WAY + 2
    told = await parts(rig, count=count)
    here, there, *rest = in_pool(rig)
    drain(rig, there, *rest, move=False)
    clients = [await Client.open(rig.port) for _ in range(count)]
    for client, part in zip(clients, told, strict=False):
        await begun(rig, client, part)
    assert here.in_flight == count

    async def never(connection: ReplicaConnection, seen: Seen) -> None:
        pass

    server(rig, there).script = never
    drain(rig, here, *rest)
    await until(lambda: there.in_flight == stream_mover.MOST_UNDER_WAY)
    survey(rig)
    await until(lambda: rig.proxy.stream_mover._timer is not None)
    assert (here.in_flight, here.moves.movable) == (2, 2)
    drain(rig, here)  # the others take requests again
    await until(lambda: here.in_flight == 0)
    assert there.in_flight == stream_mover.MOST_UNDER_WAY
    for client in clients:
        client.abort()


async def test_newer_tables_do_not_hasten_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_mover, "MOVES_PER_S", 0.001)
    told = await parts(rig, count=3)
    here, *others = in_pool(rig)
    drain(rig, *others, move=False)
    clients = [await Client.open(rig.port) for _ in range(2)]
    for client, part in zip(clients, told, strict=False):
        await begun(rig, client, part)
    drain(rig, here)
    await until(lambda: here.in_flight == 1)
    for _ in range(5):
        drain(rig, here)
        await asyncio.sleep(0.02)
    assert (here.in_flight, here.moves.moved) == (1, 1)
    for client in clients:
        client.abort()


@pytest.mark.parametrize(
    ("fields", "policy", "why"),
    [
        ({"stream": False}, {}, "plain"),
        ({}, {"continuation": "off"}, "off"),
        ({"response_format": {"type": "json_object"}}, {}, "guided"),
        ({"n": 2}, {}, "choices"),
        ({"logprobs": True}, {}, "log_probabilities"),
        ({"tool_choice": "required"}, {}, "tools"),
    ],
)
async def test_what_stays_and_why(
    rig: Rig, client: Client, fields: dict[str, Any], policy: dict[str, Any], why: str
) -> None:
    """It is known before the drain, too, where the fleet continues streams."""
    first, second, *_ = await parts(rig, **policy)
    here = await begun(rig, client, first, **fields)
    if not policy:
        survey(rig)
        assert here.moves.staying == {why: 1}
    drain(rig, here)
    survey(rig)
    assert (here.moves.movable, here.moves.staying) == (0, {why: 1})
    assert not second.asked
    assert why in STAYS


@pytest.mark.parametrize("why", ["version", "trial"])
async def test_it_stays_where_no_other_could_go_on(rig: Rig, client: Client, why: str) -> None:
    first, second, *_ = await parts(rig)
    here = await begun(rig, client, first)
    (other,) = [one for one in in_pool(rig) if one is not here]
    if why == "version":
        other.spec = replace(other.spec, version="2")
    else:
        other.continuation.chats = False
    drain(rig, here)
    survey(rig)
    assert here.moves.staying == {"no_replica": 1}
    assert not second.asked


async def test_what_has_been_said_may_forbid_it(rig: Rig, client: Client) -> None:
    """A call of tools, say. The stream is not broken off for that."""
    first, second, *_ = await parts(rig)
    call = b'data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}\n\n'
    end = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    here = await begun(rig, client, first)
    (connection,) = [one for replica in rig.replicas for one in replica.open]
    connection.transport.write(chunk(call))
    (exchange,) = stream_mover.requests_at(here)
    kept = exchange.streaming_response.kept  # type: ignore[union-attr]
    await until(lambda: exchange.account_passthrough(0.0) or b"tool_calls" in kept.text())
    drain(rig, here)
    await until(lambda: kept.cause == "tools")
    survey(rig)
    assert here.moves.staying == {"tools": 1}
    connection.transport.write(chunk(end + b"data: [DONE]\n\n") + b"0\r\n\r\n")
    assert (await client.answer(b"POST")).complete
    assert not second.asked


def test_every_cause_has_words() -> None:
    assert CAUSES.keys() <= STAYS.keys()
