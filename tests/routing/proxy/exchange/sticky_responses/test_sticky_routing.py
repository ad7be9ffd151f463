"""OpenAI's Responses API: what names a response or conversation goes to the replica that keeps it."""

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from routing.contract.policy import Limits
from routing.ipc.access_log import AccessLog
from routing.proxy import ProxySettings
from tests.routing.proxy.exchange.sticky_responses.response_fleet import (
    POLICY,
    Fleet,
    Server,
    ask,
    by,
    create,
    error,
)
from tests.routing.proxy.rig import OK, Answer, ReplicaConnection, Seen, StartRig


async def test_a_turn_goes_on_where_the_one_before_was_made(fleet: Fleet) -> None:
    made = [await fleet.make() for _ in range(4)]
    assert {replica for _, replica in made} == {"a", "b"}
    for name, replica in made:
        assert await fleet.turns(name) == [(200, replica)] * 4


async def test_paths_of_a_response_name_its_replica_and_its_fleet(fleet: Fleet) -> None:
    other = await fleet.rig.replica("o")
    fleet.rig.fleet(other, name="other", protocol="generic")
    for name, replica in [await fleet.make(), await fleet.make()]:
        for line in (
            "GET {}",
            "GET {}?include=x",
            "GET {}/input_items",
            "POST {}/cancel",
            "DELETE {}",
            "HEAD {}",
        ):
            answer = await fleet.client.ask(ask(line.format(f"/v1/responses/{name}")))
            assert (answer.status, by(answer)) == (200, replica), line
        answer = await fleet.client.ask(ask(f"POST /v1/responses/{name}/cancel", {}))
        assert (answer.status, by(answer)) == (200, replica)
    assert other.requests == []


async def test_also_where_the_fleet_is_named_outside_the_body(fleet: Fleet) -> None:
    made = []
    for fields in (("X-Switchyard-Fleet: f",), ()):
        line = "POST /v1/responses" if fields else "POST /fleets/f/v1/responses"
        for _ in range(2):
            answer = await fleet.client.ask(ask(line, {"input": "x"}, *fields))
            made.append((json.loads(answer.body)["id"], by(answer)))
    assert {replica for _, replica in made} == {"a", "b"}
    for name, replica in made:
        turn = {"previous_response_id": name}
        for request in (
            ask("POST /fleets/f/v1/responses", turn),
            ask("POST /v1/responses", turn, "X-Switchyard-Fleet: f"),
            ask(f"GET /fleets/f/v1/responses/{name}"),
            ask(f"GET /v1/responses/{name}", None, "X-Switchyard-Fleet: f"),
        ):
            answer = await fleet.client.ask(request)
            assert (answer.status, by(answer)) == (200, replica), request


async def test_an_answer_in_pieces_and_a_body_in_pieces(fleet: Fleet) -> None:
    async def whole(connection: ReplicaConnection, made: dict[str, Any]) -> None:
        data = json.dumps(made).encode()
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % len(data))
        for at in range(0, len(data), 20):
            await asyncio.sleep(0.001)
            connection.transport.write(data[at : at + 20])

    fleet.a._whole = fleet.b._whole = whole  # type: ignore[method-assign]
    for _ in range(2):
        name, replica = await fleet.make()
        turn = {"input": "x", "previous_response_id": name}
        for request in (create(**turn), ask("POST /fleets/f/v1/responses", turn)) * 2:
            fleet.client.send(request[:-9])
            await asyncio.sleep(0.01)
            fleet.client.send(request[-9:])
            answer = await fleet.client.answer()
            assert (answer.status, by(answer)) == (200, replica)


async def test_conversations_stay_where_they_were_made(fleet: Fleet) -> None:
    for name in ("conv_x", "conv_y"):
        replica = (await fleet.make(conversation=name))[1]
        assert {(await fleet.make(conversation=name))[1] for _ in range(3)} == {replica}
    for _ in range(2):
        answer = await fleet.client.ask(ask("POST /v1/conversations", {}))
        name, replica = json.loads(answer.body)["id"], by(answer)
        for conversation in (name, {"id": name}):
            for _ in range(2):
                assert (await fleet.make(conversation=conversation))[1] == replica
        for line in (f"GET /v1/conversations/{name}", f"POST /v1/conversations/{name}"):
            for _ in range(2):
                assert by(await fleet.client.ask(ask(line))) == replica


async def test_an_idle_connection_that_was_closed_is_replaced_at_the_same_replica(fleet: Fleet) -> None:
    made = [await fleet.make() for _ in range(4)]
    kept = {"a": fleet.a, "b": fleet.b}

    async def close(connection: ReplicaConnection, seen: Seen) -> None:
        server = kept[connection.replica.name]
        connection.replica.script = server.answer
        connection.transport.abort()

    for name, replica in made:
        kept[replica].replica.script = close
        answer = await fleet.client.ask(ask(f"GET /v1/responses/{name}"))
        assert (answer.status, by(answer)) == (200, replica)
        assert answer.get(b"x-switchyard-retries") == [b"1"]


async def test_with_an_access_log(fleet: Fleet, tmp_path: Any) -> None:
    log = AccessLog(str(tmp_path / "access.log"), "json", "w")
    fleet.rig.proxy.log_to(log)
    made = [await fleet.make() for _ in range(2)]
    for name, replica in made:
        assert await fleet.turns(name, 3) == [(200, replica)] * 3
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert [line["replica"] for line in lines[2:]] == [replica for _, replica in made for _ in range(3)]
    assert all(line["status"] == 200 and line["bytes"] > 100 for line in lines)


async def test_bodies_that_are_too_large(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    fleet = Fleet(rig, await rig.client(), Server(await rig.replica("a")), Server(await rig.replica("b")))
    name, _ = await fleet.make()
    # Not searched: to whomever the strategy picks. Without a fleet in the head it cannot even be routed.
    turn = {"previous_response_id": name, "input": "x" * 2000}

    async def in_two(request: bytes, first: int, between_s: float = 0.01) -> Answer:
        client = await rig.client()
        client.send(request[:first])
        await asyncio.sleep(between_s)
        client.send(request[first:])
        return await client.answer()

    answers = [await in_two(ask("POST /fleets/f/v1/responses", turn), 300) for _ in range(6)]
    assert {answer.status for answer in answers} == {200, 404}
    # Also while it takes long enough that its limits are looked at.
    answer = await in_two(ask("POST /fleets/f/v1/responses", {"input": "x" * 2000}), 300, 0.3)
    assert answer.status == 200
    answer = await in_two(ask("POST /v1/responses", {"model": "f", **turn}), 300)
    assert error(answer)[:2] == (413, "body_too_large_to_search")
    # What the fleet allows holds for each of these requests, though another allows more.
    rig.fleet(await rig.replica("g"), name="generous", default=False)
    fleet.table(policy=replace(POLICY, limits=Limits(max_body_bytes=500)))
    for line in ("POST /v1/responses", "POST /fleets/f/v1/responses", f"POST /v1/responses/{name}/cancel"):
        request = ask(line, {"model": "f", "input": "x" * 600})
        for first in (len(request), 300):
            assert error(await in_two(request, first))[:2] == (413, "body_too_large"), line
    # Where the head says so, before the body has come.
    for size in (600, 2000):
        early = await rig.client()
        early.send(ask("POST /fleets/f/v1/responses", {"input": "x" * size})[:300])
        assert error(await early.answer(limit_s=2))[:2] == (413, "body_too_large")
