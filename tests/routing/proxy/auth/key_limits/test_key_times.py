"""What is counted of each client key: how long its requests took, and why they failed."""

import asyncio

from routing.contract.sketch import value_of
from routing.contract.table import KeyLimits
from routing.contract.telemetry import SparseSketch
from tests.routing.proxy.auth.key_limits.limited_keys import (
    KEY,
    Gate,
    counters,
    events,
    in_force,
    request,
    whole,
)
from tests.routing.proxy.rig import Replica, Rig, answer_bytes, until

NO_LIMITS = KeyLimits(id="web")
STREAMED = b'{"model": "f", "messages": [], "stream": true}'
CONTENT = '{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}'


def count(sketch: SparseSketch) -> int:
    return sum(sketch.values())


async def test_an_answer_in_one_piece(rig: Rig, replica: Replica) -> None:
    in_force(rig, NO_LIMITS)
    client = await rig.client()
    gate = Gate(replica, whole("{}"))
    client.send(request())
    await until(lambda: gate.waiting)
    await asyncio.sleep(0.05)
    gate.open()
    assert (await client.answer(b"POST")).status == 200
    seen = counters(rig)
    ((bucket, answers),) = seen.latency.items()
    assert answers == 1
    assert 0.05 < value_of(bucket) < 5.0
    assert (seen.first_token, seen.errors) == ({}, {})


async def test_a_stream(rig: Rig, replica: Replica) -> None:
    in_force(rig, NO_LIMITS)
    client = await rig.client()
    replica.script = answer_bytes(events(CONTENT, "[DONE]"))
    assert (await client.ask(request(body=STREAMED))).complete
    seen = counters(rig)
    assert (count(seen.latency), count(seen.first_token)) == (1, 1)


async def test_why_requests_fail(rig: Rig, replica: Replica) -> None:
    in_force(rig, NO_LIMITS)
    client = await rig.client()
    body = b"Content-Length: 2\r\n\r\n{}"
    for status in (b"500 Oops", b"501 No", b"422 Wrong"):
        replica.script = answer_bytes(b"HTTP/1.1 %b\r\n%b" % (status, body))
        assert (await client.ask(request())).status == int(status[:3])
    assert counters(rig).errors == {"replica_500": 1, "replica_5xx": 1}
    assert count(counters(rig).latency) == 3
    rig.fleet(protocol="openai")
    assert (await client.ask(request())).status == 503
    assert counters(rig).errors == {"replica_500": 1, "replica_5xx": 1, "no_replica": 1}
    # The time until the proxy's own answer counts, as it does for the fleet.
    assert count(counters(rig).latency) == 4


async def test_a_client_that_leaves_is_no_error(rig: Rig, replica: Replica) -> None:
    in_force(rig, NO_LIMITS)
    client = await rig.client()
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    client.abort()
    await until(lambda: counters(rig).in_flight == 0)
    assert (counters(rig).errors, counters(rig).latency, counters(rig).requests) == ({}, {}, 1)


async def test_what_its_own_limits_refuse_is_no_error(rig: Rig, replica: Replica) -> None:
    in_force(rig, KeyLimits(id="web", requests_per_minute=1))
    client = await rig.client()
    replica.script = answer_bytes(whole("{}"))
    statuses = [(await client.ask(request(key=KEY))).status for _ in range(2)]
    assert statuses == [200, 429]
    assert counters(rig).errors == {}
    assert count(counters(rig).latency) == 1
