"""Sticky lookup: a worker asks others who keeps a response that it does not know itself."""

import asyncio

import pytest
from msgspec.structs import replace

from routing.contract.policy import Timeouts
from routing.shared.sticky_ids import MAX_ID_CHARS, ReplicaRef
from tests.routing.proxy.exchange.sticky_responses.response_fleet import (
    POLICY,
    Elsewhere,
    Fleet,
    ask,
    by,
    create,
    error,
)
from tests.routing.proxy.rig import until


async def test_others_are_told_and_asked_once(fleet: Fleet) -> None:
    others = Elsewhere(fleet.rig)
    name, replica = await fleet.make()
    assert others.shared == {name: ReplicaRef("f", f"f-{replica}", replica)}
    await fleet.turns(name, 2)
    assert others.asked == []
    fleet.b.kept["resp_theirs"] = {"id": "resp_theirs"}
    others.places["resp_theirs"] = ReplicaRef("f", "f-b", "b")
    assert await fleet.turns("resp_theirs") == [(200, "b")] * 4
    fleet.b.kept["resp_more"] = {"id": "resp_more"}
    others.places["resp_more"] = ReplicaRef("f", "f-b", "b")
    assert [by(await fleet.client.ask(ask("GET /v1/responses/resp_more"))) for _ in range(3)] == ["b"] * 3
    assert others.asked == ["resp_theirs", "resp_more"]
    assert "resp_theirs" not in others.shared
    assert [status for status, _ in await fleet.turns("resp_nobody", 1)] == [404]
    # A fleet of one replica has nothing to choose from.
    fleet.table(fleet.a.replica)
    assert await fleet.turns("resp_unknown", 1) == [(404, "a")]
    assert "resp_unknown" not in others.asked


async def test_a_client_that_leaves_while_others_are_asked(fleet: Fleet) -> None:
    others = Elsewhere(fleet.rig)
    others.answers.clear()
    leaving = await fleet.rig.client()
    leaving.send(create(previous_response_id="resp_x"))
    await until(lambda: others.asked)
    leaving.abort()
    await until(lambda: fleet.rig.proxy.clients == 1)
    fleet.client.send(ask("GET /v1/responses/resp_y", None, "X-Request-Timeout-Ms: 50"))
    answer = await fleet.client.answer()
    assert error(answer)[:2] == (504, "request_timeout")
    await until(lambda: others.cancelled == 2)
    # Also one who answers nevertheless is not heard.
    assert fleet.a.replica.requests == fleet.b.replica.requests == []
    assert (await fleet.make())[0]


async def test_a_slow_head_is_refused_also_after_others_were_asked(fleet: Fleet) -> None:
    others = Elsewhere(fleet.rig)
    fleet.table(policy=replace(POLICY, timeouts=Timeouts(head_s=0.1)))
    # Another fleet has more patience, so the connection has it while the fleet is not known.
    fleet.rig.fleet(await fleet.rig.replica("p"), name="patient", default=False)
    for request in (create(previous_response_id="resp_x"), ask("GET /v1/responses/resp_x")):
        fleet.client.send(request[:10])
        await asyncio.sleep(0.15)
        fleet.client.send(request[10:])
        assert error(await fleet.client.answer())[:2] == (408, "head_timeout")
        fleet.client = await fleet.rig.client()
    assert others.asked == ["resp_x"] * 2
    assert fleet.a.replica.requests == fleet.b.replica.requests == []


async def test_others_that_cannot_be_asked_know_nothing(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    async def find(name: str) -> ReplicaRef | None:
        raise OSError("gone")

    fleet.rig.proxy.sticky_registry.join(lambda name, place: None, find)
    assert (await fleet.turns("resp_x", 1))[0][0] == 404
    assert "the sticky lookup failed for 'resp_x'" in caplog.text


async def test_ids_that_are_too_long_are_unknown_at_once(fleet: Fleet) -> None:
    others = Elsewhere(fleet.rig)
    assert (await fleet.turns("x" * (MAX_ID_CHARS + 1), 1))[0][0] == 404
    assert others.asked == []
