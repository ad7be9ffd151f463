"""Requests per minute of a client key: what is refused, in which words, and until when."""

import json
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from routing.contract.table import KeyLimits
from tests.clock import Clock
from tests.routing.proxy.auth.key_limits.limited_keys import (
    ONE_MINUTE,
    OTHER,
    OTHER_HASH,
    SALT,
    Gate,
    counters,
    get,
    in_force,
    request,
)
from tests.routing.proxy.rig import (
    Replica,
    Rig,
    until,
)


async def test_what_is_over_the_limit_is_told_what_and_until_when(
    rig: Rig, replica: Replica, clock: Clock
) -> None:
    in_force(rig, ONE_MINUTE)
    client = await rig.client()
    clock.now = 1000.5
    assert (await client.ask(request())).status == 200
    clock.now = 1010.25
    assert (await client.ask(request())).status == 200
    clock.now = 1020.75
    answer = await client.ask(request())
    assert answer.status == 429
    assert answer.get(b"retry-after") == [b"40"]
    assert answer.get(b"x-ratelimit-limit-requests") == [b"2"]
    assert answer.get(b"x-ratelimit-remaining-requests") == [b"0"]
    assert answer.get(b"x-ratelimit-reset-requests") == [b"50s"]
    assert answer.get(b"x-ratelimit-limit-tokens") == []
    error = json.loads(answer.body)["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")
    assert error["message"] == (
        "this client key allows 2 requests per minute, and 2 were accepted within the last minute: "
        "retry in 40 s"
    )
    assert len(replica.requests) == 2
    # As long as told is enough, and a moment less is not.
    clock.now = 1020.75 + 39
    assert (await client.ask(request())).get(b"retry-after") == [b"1"]
    clock.now = 1020.75 + 40
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).get(b"retry-after") == [b"10"]
    found = counters(rig)
    assert (found.id, found.requests, found.limited, found.in_flight) == ("web", 6, 3, 0)
    assert found.limited_by == {"requests_per_minute": 3}


async def test_neither_fleet_nor_replica_hears_of_it(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(5)] == [200, 429, 429, 429, 429]
    pool = rig.table.fleets["f"]
    assert (pool.counters.requests, pool.counters.answered, pool.counters.errors) == (1, 1, 0)
    assert pool.replicas[0].picked == 1
    assert rig.proxy.rejected == 4


async def test_other_keys_are_not_limited(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).status == 429
    for _ in range(3):
        assert (await client.ask(request(key=OTHER))).status == 200
    assert [found.id for found in rig.proxy.key_quotas.report()] == ["web"]


async def test_in_the_shape_of_anthropics_api(rig: Rig, replica: Replica, clock: Clock) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    message = request(b"/v1/messages", b'{"model": "f", "max_tokens": 5, "messages": []}')
    assert (await client.ask(message)).status == 200
    before = datetime.now(UTC)
    answer = await client.ask(message)
    assert answer.status == 429
    said = json.loads(answer.body)
    assert (said["type"], said["error"]["type"]) == ("error", "rate_limit_error")
    assert "1 requests per minute" in said["error"]["message"]
    assert said["error"]["details"] == {"error_code": "rate_limit_exceeded"}
    assert answer.get(b"anthropic-ratelimit-requests-limit") == [b"1"]
    assert answer.get(b"anthropic-ratelimit-requests-remaining") == [b"0"]
    (resets,) = answer.get(b"anthropic-ratelimit-requests-reset")
    seconds = (datetime.fromisoformat(resets.decode()) - before).total_seconds()
    assert 58 <= seconds <= 62
    assert answer.get(b"retry-after") == [b"60"]


@pytest.mark.parametrize(
    ("path", "protocol"),
    [(b"/v2/models/f/infer", "open-inference"), (b"/fleets/f/anything", "generic")],
)
async def test_in_the_shape_of_the_other_protocols(rig: Rig, path: bytes, protocol: str) -> None:
    rig.fleet(await rig.replica(), protocol=protocol)  # type: ignore[arg-type]
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request(path, b"{}"))).status == 200
    answer = await client.ask(request(path, b"{}"))
    assert answer.status == 429
    said = json.loads(answer.body)
    words = said["error"] if protocol == "open-inference" else said["detail"]
    assert words.startswith("this client key allows 1 requests per minute")


async def test_it_is_told_before_a_byte_of_the_body_has_come(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request())).status == 200
    whole = request(body=b"x" * 100_000)
    client.send(whole[: whole.index(b"\r\n\r\n") + 4])
    assert (await client.answer()).status == 429
    other = await rig.client()
    other.send(whole[: whole.index(b"\r\n\r\n") + 4].replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert (await other.answer()).status == 429


async def test_what_the_proxy_answers_by_itself_is_no_use_of_a_key(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1, max_concurrency=1))
    client = await rig.client()
    for _ in range(3):
        assert (await client.ask(get(b"/v1/models"))).status == 200
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).status == 429
    assert (await client.ask(get(b"/v1/models"))).status == 200


async def test_limits_change_at_once_and_what_was_used_stays_used(
    rig: Rig, replica: Replica, clock: Clock
) -> None:
    in_force(rig, ONE_MINUTE)
    client = await rig.client()

    async def granted() -> int:
        return [(await client.ask(request())).status for _ in range(10)].count(200)

    assert await granted() == 2
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=5))
    assert await granted() == 3
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    assert await granted() == 0
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=6, priority="low"))
    assert await granted() == 1
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=None))
    assert await granted() == 10
    assert counters(rig).requests == 50


async def test_each_of_several_proxies_holds_to_its_part(rig: Rig, replica: Replica) -> None:
    rig.table.quota_share.set(1, 2)
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=5))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(5)] == [200, 200, 429, 429, 429]
    in_force(rig, KeyLimits(id="web", max_concurrency=3))
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    assert (await (await rig.client()).ask(request())).status == 429
    gate.open()
    assert (await client.answer()).status == 200


async def test_a_key_that_left_and_came_back_begins_anew(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(2)] == [200, 429]
    rig.keys(SALT, {OTHER_HASH: ["*"]})
    assert (await client.ask(request())).status == 401
    assert rig.proxy.key_quotas.report() == []
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    assert [(await client.ask(request())).status for _ in range(2)] == [200, 429]
    assert counters(rig).requests == 4
