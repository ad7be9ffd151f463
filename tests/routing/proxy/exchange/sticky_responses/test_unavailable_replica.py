"""The replica that keeps a response has left, drains, is ejected, is down or fails: what the client hears."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from routing.contract.policy import Ejection, Policy, Retries
from tests.routing.proxy.exchange.sticky_responses.response_fleet import (
    POLICY,
    Fleet,
    ask,
    by,
    create,
    error,
)
from tests.routing.proxy.rig import ReplicaConnection, Seen, until


async def test_a_replica_that_has_left_is_named_and_nobody_else_is_asked(fleet: Fleet) -> None:
    name, replica = await fleet.make()
    other = fleet.b if replica == "a" else fleet.a
    fleet.table(other.replica)
    before = len(other.replica.requests)
    status, code, words = error(await fleet.client.ask(create(previous_response_id=name)))
    assert (status, code) == (400, "previous_response_not_found")
    assert words == (
        f"response '{name}' was stored by replica {replica} of fleet f, which has been removed; "
        "send the whole conversation again, without previous_response_id or conversation"
    )
    answer = await fleet.client.ask(ask(f"GET /v1/responses/{name}"))
    assert error(answer)[:2] == (404, "response_not_found")
    assert len(other.replica.requests) == before
    # The same when the fleet is gone.
    fleet.table(other.replica, name="g")
    manifest = fleet.rig.table.manifest
    fleet.rig._version += 1
    fleet.rig.table.apply_manifest(
        type(manifest)(epoch=1, version=fleet.rig._version, fleets={"g": fleet.rig._version}, default="g")
    )
    fleet.table(other.replica, name="g")
    status, code, words = error(await fleet.client.ask(ask(f"GET /v1/responses/{name}")))
    assert (status, code) == (404, "response_not_found")
    assert f"replica {replica} of fleet f, which has been removed" in words
    assert len(other.replica.requests) == before


async def test_a_replica_that_empties_finishes_but_begins_nothing(fleet: Fleet) -> None:
    name, replica = await fleet.make()
    kept = fleet.a if replica == "a" else fleet.b
    fleet.table(draining=(kept.replica,))
    for line in (
        f"GET /v1/responses/{name}",
        f"POST /v1/responses/{name}/cancel",
        f"DELETE /v1/responses/{name}",
    ):
        answer = await fleet.client.ask(ask(line))
        assert (answer.status, by(answer)) == (200, replica)
    status, code, words = error(await fleet.client.ask(create(previous_response_id=name)))
    assert (status, code) == (400, "previous_response_not_found")
    assert (
        f"stored by replica {replica} of fleet f, which gets no requests: draining, set by an operator"
        in words
    )
    pool = fleet.rig.table.fleets["f"]
    assert (pool.counters.no_replica, pool.counters.errors) == (0, 0)
    fleet.table()
    assert await fleet.turns(name, 1) == [(200, replica)]


async def test_a_replica_that_is_ejected_may_be_asked_again_soon(fleet: Fleet) -> None:
    policy = Policy(
        strategy="round_robin",
        slow_start_s=0,
        ejection=Ejection(consecutive_failures=1, base_s=0.3),
        retries=Retries(budget_percent=100),
    )
    fleet.table(policy=policy)
    name, replica = await fleet.make()
    kept, other = (fleet.a, fleet.b) if replica == "a" else (fleet.b, fleet.a)
    await kept.replica.stop()
    await until(lambda: fleet.rig.proxy.upstreams == 0)
    before = len(other.replica.requests)
    # Refused before a byte was sent, and yet no other is asked: it could not know the response.
    answer = await fleet.client.ask(create(previous_response_id=name))
    assert error(answer)[:2] == (503, "replica_unreachable")
    assert not answer.get(b"x-switchyard-retries")
    answer = await fleet.client.ask(create(previous_response_id=name))
    status, code, words = error(answer)
    assert (status, code) == (503, "response_unavailable")
    assert f"replica {replica} of fleet f, which gets no requests: ejected for another " in words
    assert answer.get(b"retry-after") == [b"1"]
    assert error(await fleet.client.ask(ask(f"GET /v1/responses/{name}")))[:2] == (
        503,
        "response_unavailable",
    )
    assert len(other.replica.requests) == before
    await kept.replica.start()
    ejected = next(one for one in fleet.rig.table.fleets["f"].replicas if one.name == replica)
    await until(lambda: asyncio.get_running_loop().time() > ejected.ejection.until)
    # Its ejection is over: this request is the one that decides.
    assert await fleet.turns(name, 2) == [(200, replica)] * 2
    assert not ejected.ejection.until


@pytest.mark.parametrize(
    ("fields", "turn", "read"),
    [
        ({"admin_state": "maintenance"}, (400, "previous_response_not_found"), (503, "response_unavailable")),
        ({"health": "down"}, (400, "previous_response_not_found"), (503, "response_unavailable")),
        ({"health": "unready"}, (503, "response_unavailable"), (503, "response_unavailable")),
        ({"weight": 0.0}, (400, "previous_response_not_found"), None),
    ],
    ids=["maintenance", "down", "unready", "weight"],
)
async def test_a_replica_that_is_out(
    fields: dict[str, Any], turn: tuple[int, str], read: tuple[int, str] | None, fleet: Fleet
) -> None:
    name, replica = await fleet.make()
    # Fewer than half ready would be taken for an error of the probes.
    fleet.table(fleet.a.replica, fleet.b.replica, await fleet.rig.replica("c"))
    fleet.state(replica, **fields)
    assert error(await fleet.client.ask(create(previous_response_id=name)))[:2] == turn
    answer = await fleet.client.ask(ask(f"GET /v1/responses/{name}"))
    if read is None:
        assert (answer.status, by(answer)) == (200, replica)
    else:
        assert error(answer)[:2] == read
        assert answer.get(b"retry-after") == [b"1"]


async def test_an_error_of_the_keeper_is_passed_on_where_others_are_asked_again(fleet: Fleet) -> None:
    retries = Retries(budget_percent=100, statuses=[503])
    fleet.table(policy=replace(POLICY, retries=retries))
    name, replica = await fleet.make()
    kept, other = (fleet.a, fleet.b) if replica == "a" else (fleet.b, fleet.a)

    async def busy(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")

    kept.replica.script = busy
    before = len(other.replica.requests)
    answer = await fleet.client.ask(ask(f"GET /v1/responses/{name}"))
    assert (answer.status, by(answer)) == (503, replica)
    assert len(other.replica.requests) == before
    # One that nobody keeps may go to the other.
    assert {(await fleet.client.ask(ask("GET /v1/responses/resp_nobody"))).status for _ in range(4)} == {404}
