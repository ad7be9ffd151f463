"""Concurrent requests of a client key: how many may be in flight or waiting."""

import json

from msgspec.structs import replace

from routing.contract.table import KeyLimits
from tests.routing.proxy.auth.key_limits.limited_keys import (
    HASH,
    ONE_AT_A_TIME,
    ONE_MINUTE,
    SALT,
    Gate,
    counters,
    in_force,
    request,
)
from tests.routing.proxy.rig import (
    Replica,
    Rig,
    until,
)


async def test_one_more_than_may_be_in_flight_is_refused(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_AT_A_TIME, max_concurrency=2))
    gate = Gate(replica)
    first, second, third = [await rig.client() for _ in range(3)]
    first.send(request())
    second.send(request())
    await until(lambda: gate.waiting == 2)
    assert counters(rig).in_flight == 2
    answer = await third.ask(request())
    assert answer.status == 429
    assert answer.get(b"retry-after") == [b"1"]
    assert json.loads(answer.body)["error"]["message"] == (
        "this client key allows 2 concurrent requests, and 2 are in flight or waiting: "
        "retry when one has ended"
    )
    assert counters(rig).limited_by == {"max_concurrency": 1}
    gate.open()
    assert [(await client.answer()).status for client in (first, second)] == [200, 200]
    assert (await third.ask(request())).status == 200


async def test_a_refused_request_uses_nothing_of_the_other_limits(rig: Rig, replica: Replica) -> None:
    in_force(rig, KeyLimits(id="web", max_concurrency=1, requests_per_minute=3, tokens_per_minute=1000))
    gate = Gate(replica)
    first, second = await rig.client(), await rig.client()
    first.send(request())
    await until(lambda: gate.waiting == 1)
    for _ in range(5):
        assert (await second.ask(request(body=b'{"model": "f"}'))).status == 429
    gate.open()
    assert (await first.answer()).status == 200
    assert [(await second.ask(request())).status for _ in range(5)] == [200, 200, 429, 429, 429]
    use = rig.proxy.key_quotas.of(HASH, ONE_MINUTE)
    assert [status.used for status in use.statuses()] == [3, 0, 0]


async def test_a_limit_that_comes_while_requests_are_in_flight_counts_them(
    rig: Rig, replica: Replica
) -> None:
    in_force(rig, KeyLimits(id="web"))
    gate = Gate(replica)
    first, second = await rig.client(), await rig.client()
    first.send(request())
    await until(lambda: gate.waiting == 1)
    in_force(rig, ONE_AT_A_TIME)
    assert (await second.ask(request())).status == 429
    rig.keys(SALT, {HASH: ["*"]})
    in_force(rig, ONE_AT_A_TIME)
    gate.open()
    assert (await first.answer()).status == 200
    assert (await second.ask(request())).status == 200
