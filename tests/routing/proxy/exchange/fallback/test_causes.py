"""For each cause: the request goes to the other fleet, streamed or not, under its model's name."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from routing.balancing.learning import predictions
from routing.contract.policy import Slo
from tests.routing.proxy.exchange.fallback.two_fleets import (
    EVENTS,
    HEAD,
    LOST,
    WHOLE,
    ask,
    chat,
    error,
    model_asked,
    policy,
    says,
    served_by_small,
    silent,
    to,
    two_fleets,
)
from tests.routing.proxy.rig import Replica, ReplicaConnection, Rig, Script, Seen, answer_bytes, until

both = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])

TOO_LONG = [
    b'{"error":{"message":"Too long.","type":"invalid_request_error","param":"messages",'
    b'"code":"context_length_exceeded"}}',
    b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you '
    b'requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}',
    b'{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (512 tokens)",'
    b'"type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":512}}',
    b'{"object":"error","message":"The input (9000 tokens) is longer than the model\'s context length '
    b'(4096 tokens).","type":"BadRequestError","code":400}',
]
HEADS = {
    "length": b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n",
    "chunked": b"HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n",
}

SLOW_S = 0.8
SOON = b"X-Request-Timeout-Ms: 400\r\n"
LATER = b"X-Request-Timeout-Ms: 60000\r\n"
"""Time limits that are not met by a slow replica, and are."""


async def stop_all(replicas: list[Replica]) -> None:
    for replica in replicas:
        await replica.stop()


@both
async def test_no_eligible_replica(rig: Rig, stream: bool) -> None:
    two = await two_fleets(rig)
    rig.fleet(*two.large, name="large", protocol="openai", policy=policy(to()), draining=tuple(two.large))
    answer = await ask(await rig.client(), stream)
    served_by_small(answer, "no_eligible_replica", stream)
    assert model_asked(two.small[0]) == "org/Small"
    assert not two.large[0].requests
    two.check(1, 1, "no_eligible_replica")
    assert two.counters("large").no_replica == 0
    assert not answer.get(b"x-switchyard-retries")


@both
async def test_no_replica_at_all(rig: Rig, stream: bool) -> None:
    two = await two_fleets(rig, large=0)
    served_by_small(await ask(await rig.client(), stream), "no_eligible_replica", stream)
    two.check(1, 1, "no_eligible_replica")


@both
@pytest.mark.parametrize("size", [0, 4], ids=["no queue", "queue"])
async def test_no_place(rig: Rig, stream: bool, size: int) -> None:
    two = await two_fleets(rig, max_concurrency=1, queue={"size": size, "timeout_s": 0.05})
    two.large[0].script = silent
    first = await rig.client()
    first.send(chat())
    await until(lambda: two.large[0].requests)
    served_by_small(await ask(await rig.client(), stream), "no_place", stream)
    assert len(two.large[0].requests) == 1
    first.abort()
    await until(lambda: two.counters("large").cancelled)
    two.check(2, 1, "no_place")


@both
@pytest.mark.parametrize(
    "script", [LOST, error(500), error(502), error(503), error(429)], ids=["lost", "500", "502", "503", "429"]
)
@pytest.mark.parametrize("large", [1, 2])
async def test_replicas_failed(rig: Rig, stream: bool, script: Script, large: int) -> None:
    two = await two_fleets(rig, large)
    for replica in two.large:
        replica.script = script
    answer = await ask(await rig.client(), stream)
    served_by_small(answer, "replicas_failed", stream)
    assert [len(replica.requests) for replica in two.large] == [1] * large
    assert len(two.small[0].requests) == 1
    two.check(1, 1, "replicas_failed")
    assert two.counters("large").errors == 0
    assert answer.get(b"x-switchyard-retries") == [b"1"] * (large - 1)


@both
async def test_replicas_that_refuse_connections(rig: Rig, stream: bool) -> None:
    two = await two_fleets(rig, 2)
    await stop_all(two.large)
    client = await rig.client()
    for number in range(1, 9):
        answer = await ask(client, stream)
        assert answer.get(b"x-switchyard-fleet") == [b"small"], answer
        assert answer.status == 200
        assert two.counters("small").requests == number


async def test_a_replica_that_fails_in_two_pieces(rig: Rig) -> None:
    """As uvicorn writes: the head comes alone."""

    async def in_two(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n")
        await asyncio.sleep(0.02)
        connection.transport.write(b"no")

    two = await two_fleets(rig)
    two.large[0].script = in_two
    served_by_small(await ask(await rig.client()), "replicas_failed")


@both
async def test_a_stream_that_ends_before_its_answer(rig: Rig, stream: bool) -> None:
    two = await two_fleets(rig)
    two.large[0].script = answer_bytes(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    served_by_small(await ask(await rig.client(), stream), "replicas_failed", stream)


async def test_first_token(rig: Rig) -> None:
    two = await two_fleets(rig, timeouts={"first_byte_s": 0.2})
    two.large[0].script = silent
    served_by_small(await ask(await rig.client(), True), "first_token", True)
    two.check(1, 1, "first_token")


@pytest.mark.parametrize("large", [1, 2, 3])
async def test_the_limit_for_first_tokens_passes_everywhere(rig: Rig, large: int) -> None:
    """At the only replica, or at both that the stream was sent to: no third is asked."""
    two = await two_fleets(rig, large, first_token_limit_s=0.1)
    for replica in two.large:
        replica.script = silent
    answer = await ask(await rig.client(), True)
    served_by_small(answer, "first_token", True)
    asked = min(large, 2)
    assert sum(len(replica.requests) for replica in two.large) == asked
    two.check(1, 1, "first_token")
    assert two.counters("large").second_attempts == ({"cancelled": 1} if asked == 2 else {})
    await until(lambda: not any(replica.open for replica in two.large))


async def test_a_slow_first_token_that_no_other_fleet_can_give(rig: Rig) -> None:
    async def slowly(connection: ReplicaConnection, seen: Seen) -> None:
        await asyncio.sleep(0.5)
        await says(connection, seen)

    two = await two_fleets(rig, small=0, first_token_limit_s=0.1)
    two.large[0].script = slowly
    answer = await ask(await rig.client(), True)
    assert (answer.status, answer.body) == (200, WHOLE)
    assert two.counters("large").no_fallback == {"fleet": 1}, "it is asked once"


@both
@pytest.mark.parametrize("text", TOO_LONG, ids=["openai", "vllm", "llama.cpp", "sglang"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("pieces", [1, 2, 5])
async def test_context_length_exceeded(
    rig: Rig, stream: bool, text: bytes, framing: str, pieces: int
) -> None:
    async def refuses(connection: ReplicaConnection, seen: Seen) -> None:
        body = text if framing == "length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(text), text)
        head = HEADS[framing] % len(text) if framing == "length" else HEADS[framing]
        parts = [head + body]
        if pieces > 1:
            size = len(body) // (pieces - 1) + 1
            parts = [head, *(body[at : at + size] for at in range(0, len(body), size))]
        for part in parts:
            connection.transport.write(part)
            await asyncio.sleep(0.01)

    two = await two_fleets(rig)
    two.large[0].script = refuses
    client = await rig.client()
    for number in (1, 2):
        served_by_small(await ask(client, stream), "context_length_exceeded", stream)
        two.check(number, number, "context_length_exceeded")
    assert len(two.large[0].connections) == 1, "its connections are used again"


@pytest.mark.parametrize("pieces", ["one", "two", "stuck", "cut"])
async def test_another_refusal_goes_to_the_client(rig: Rig, pieces: str) -> None:
    text = b'{"error":{"message":"temperature must be positive","code":400}}'

    async def refuses(connection: ReplicaConnection, seen: Seen) -> None:
        head = HEADS["length"] % len(text)
        if pieces == "one":
            connection.transport.write(head + text)
            return
        connection.transport.write(head)
        await asyncio.sleep(0.02)
        if pieces == "cut":
            connection.transport.close()
            return
        connection.transport.write(text[:10])
        if pieces == "stuck":
            await asyncio.sleep(1.3)
        connection.transport.write(text[10:])

    two = await two_fleets(rig, fallback=[to("small", "context_length_exceeded")])
    two.large[0].script = refuses
    answer = await ask(await rig.client())
    if pieces == "cut":
        assert answer.status == 502
    else:
        assert (answer.status, answer.body) == (400, text)
    assert not answer.get(b"x-switchyard-fleet")
    two.check(1, 0)


async def test_a_long_refusal_goes_to_the_client_as_it_comes(rig: Rig) -> None:
    text = b'{"error":"' + b"x" * 200_000 + b"maximum context length" + b'"}'

    async def refuses(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(HEADS["length"] % len(text))
        await asyncio.sleep(0.02)
        connection.transport.write(text)

    two = await two_fleets(rig)
    two.large[0].script = refuses
    answer = await ask(await rig.client())
    assert (answer.status, answer.body) == (400, text)
    two.check(1, 0)


async def slow(connection: ReplicaConnection, seen: Seen) -> None:
    """Streams come in two pieces, so that their first token is told from their end."""
    await asyncio.sleep(SLOW_S)
    if b'"stream": true' not in seen.body:
        await says(connection, seen)
        return
    first, last = (b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS)
    connection.transport.write(HEAD + first)
    await asyncio.sleep(0.01)
    connection.transport.write(last + b"0\r\n\r\n")


async def learned(rig: Rig, model: str, stream: bool = False) -> int:
    """Have it known how long such requests take there; returns how many that took."""
    clients = [await rig.client() for _ in range(16)]
    # One after the other at first: what is expected before anything is known is far off.
    count = 2
    for _ in range(count):
        await ask(clients[0], stream, model=model, max_tokens=10, fields=LATER)
    for _ in range(2):
        answers = (ask(one, stream, model=model, max_tokens=10, fields=LATER) for one in clients)
        for answer in await asyncio.gather(*answers):
            assert not answer.get(b"x-switchyard-fleet")
            count += 1
    return count


@both
async def test_deadline(rig: Rig, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    """It is known of the first fleet how long such requests take, of the other nothing."""
    monkeypatch.setattr(predictions, "EVERY_S", 0.0)
    two = await two_fleets(rig)
    two.large[0].script = slow
    asked = await learned(rig, "large")
    client = await rig.client()
    served_by_small(await ask(client, stream, max_tokens=10, fields=SOON), "deadline", stream)
    answer = await ask(client, stream, max_tokens=10, fields=LATER)
    assert not answer.get(b"x-switchyard-fleet")
    two.check(asked + 2, 1, "deadline")


async def test_an_objective_for_first_tokens(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "EVERY_S", 0.0)
    two = await two_fleets(rig)
    two.large[0].script = slow
    asked = await learned(rig, "large", True)
    pool = rig.table.fleets["large"]
    objective = replace(pool.policy, slo=Slo(first_token_s=SLOW_S / 2))
    rig.table.apply_snapshot(replace(pool.snapshot, version=9, policy=objective))
    client = await rig.client()
    served_by_small(await ask(client, True, max_tokens=10), "deadline", True)
    # What is not streamed has no first token.
    assert not (await ask(client, max_tokens=10)).get(b"x-switchyard-fleet")
    two.check(asked + 2, 1, "deadline")


async def test_a_fleet_that_would_be_late_too_does_not_take_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "EVERY_S", 0.0)
    two = await two_fleets(rig)
    two.large[0].script = two.small[0].script = slow
    await learned(rig, "large")
    asked = await learned(rig, "small")
    answer = await ask(await rig.client(), max_tokens=10, fields=SOON)
    assert answer.status == 504
    assert two.counters("large").no_fallback == {"late": 1}
    assert len(two.small[0].requests) == asked


async def test_a_cause_that_is_not_listed(rig: Rig) -> None:
    two = await two_fleets(rig, fallback=[to("small", "no_place", "context_length_exceeded")])
    two.large[0].script = error(500)
    answer = await ask(await rig.client())
    assert (answer.status, answer.body) == (500, b"no")
    two.check(1, 0)
    assert two.counters("large").errors == 1
    assert two.counters("large").no_fallback == {}


async def test_no_request_waits_for_a_fleet_that_is_loading(rig: Rig) -> None:
    two = await two_fleets(rig, queue={"cold": "hold", "cold_timeout_s": 60})
    pool = rig.table.fleets["large"]
    loading = [
        replace(one, health="checking", health_source="probe", has_passed=False)
        for one in pool.snapshot.replicas
    ]
    rig.table.apply_snapshot(replace(pool.snapshot, version=9, replicas=loading))
    served_by_small(await ask(await rig.client()), "no_eligible_replica")
    two.check(1, 1, "no_eligible_replica")
