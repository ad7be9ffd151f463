"""Tokens per minute of a client key: which tokens count, and what is reserved until an answer has ended."""

import asyncio
import gzip
import json
import math
import time

import pytest
from msgspec.structs import replace

from tests.clock import Clock
from tests.routing.proxy.auth.key_limits.limited_keys import (
    HASH,
    KEY,
    ONE_MINUTE,
    OTHER,
    SALT,
    THOUSAND,
    Gate,
    counters,
    events,
    in_force,
    request,
    whole,
)
from tests.routing.proxy.rig import (
    OK,
    OK_ANSWER,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_bytes,
    until,
)


@pytest.mark.parametrize(
    ("path", "said", "tokens"),
    [
        (
            b"/v1/chat/completions",
            '{"usage": {"prompt_tokens": 700, "completion_tokens": 55, "total_tokens": 755}}',
            755,
        ),
        (
            b"/v1/messages",
            '{"usage": {"input_tokens": 30, "cache_read_input_tokens": 9000, "output_tokens": 12}}',
            42,
        ),
        (
            b"/v1/responses",
            '{"usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 5}, '
            '"output_tokens": 87, "output_tokens_details": {"reasoning_tokens": 9}, "total_tokens": 123}}',
            123,
        ),
        (b"/v1/embeddings", '{"data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}', 8),
        (b"/v1/rerank", '{"results": [], "usage": {"total_tokens": 56}}', 56),
        (b"/v1/chat/completions", '{"choices": [{"text": "\\"prompt_tokens\\": 900"}]}', 0),
    ],
)
async def test_tokens_are_those_that_answers_report(
    rig: Rig, replica: Replica, clock: Clock, path: bytes, said: str, tokens: int
) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(whole(said))
    assert (await client.ask(request(path))).status == 200
    assert counters(rig).tokens == tokens
    rig.keys(SALT, {HASH: ["*"]}, {HASH: replace(THOUSAND, tokens_per_minute=max(tokens, 1))})
    assert (await client.ask(request(path))).status == (429 if tokens else 200)


async def test_a_used_up_minute_is_told_and_comes_back(rig: Rig, replica: Replica, clock: Clock) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(whole('{"usage": {"prompt_tokens": 600, "completion_tokens": 300}}'))
    assert (await client.ask(request())).status == 200
    clock.now += 10
    assert (await client.ask(request())).status == 200
    clock.now += 5.25
    answer = await client.ask(request())
    assert answer.status == 429
    error = json.loads(answer.body)["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "tokens")
    assert error["message"].startswith("this client key allows 1000 tokens per minute, and 1800 were used")
    # The first request's have gone then, of which 801 suffice.
    assert answer.get(b"retry-after") == [b"%d" % math.ceil(1060 - clock.now)]
    assert answer.get(b"x-ratelimit-limit-tokens") == [b"1000"]
    assert answer.get(b"x-ratelimit-remaining-tokens") == [b"0"]
    assert answer.get(b"x-ratelimit-reset-tokens") == [b"%ds" % math.ceil(1070 - clock.now)]
    clock.now = 1059.9
    assert (await client.ask(request())).status == 429
    clock.now = 1060
    assert (await client.ask(request())).status == 200
    assert counters(rig).limited_by == {"tokens_per_minute": 2}


@pytest.mark.parametrize(
    ("answer", "told", "held"),
    [
        (
            events('{"choices": []}', '{"usage": {"prompt_tokens": 7, "completion_tokens": 2}}', "[DONE]"),
            9,
            9,
        ),
        # A line is a token where nothing is said, and the prompt is what was estimated: 40 bytes.
        (events('{"choices": []}', '{"choices": []}', "[DONE]"), 2, 12),
        (
            events(
                '{"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}}',
                '{"type": "message_delta", "usage": {"output_tokens": 15}}',
                "[DONE]",
            ),
            40,
            40,
        ),
    ],
)
async def test_tokens_of_streams(rig: Rig, replica: Replica, answer: bytes, told: int, held: int) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        half = answer.index(b"_tokens") + 10 if b"_tokens" in answer else len(answer) - 20
        sent = time.monotonic()
        connection.transport.write(answer[:half])
        # What has no content yet is held back, but it was read.
        await until(lambda: any(one.last_heard_at > sent for one in rig.table.fleets["f"].replicas))
        connection.transport.write(answer[half:])

    replica.script = script
    asked = request(body=b'{"model": "f", "stream": true, "n": 1  }')
    assert len(asked.partition(b"\r\n\r\n")[2]) == 40
    assert (await client.ask(asked)).status == 200
    await until(lambda: counters(rig).in_flight == 0)
    assert counters(rig).tokens == told
    in_force(rig, replace(THOUSAND, tokens_per_minute=held + 1))
    assert (await client.ask(asked)).status == 200
    in_force(rig, replace(THOUSAND, tokens_per_minute=2 * held))
    assert (await client.ask(asked)).status == 429


async def test_a_stream_that_comes_in_one_piece_is_counted_alike(rig: Rig, replica: Replica) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(events('{"choices": []}', '{"choices": []}', "[DONE]"))
    assert (await client.ask(request())).status == 200
    assert counters(rig).tokens == 2
    (status,) = rig.proxy.key_quotas.of(HASH, THOUSAND).statuses()
    assert status.used == 2 + len(b'{"model": "f", "messages": []}') // 4


async def test_a_replica_is_not_asked_to_compress_what_is_to_be_counted(rig: Rig, replica: Replica) -> None:
    """As servers behind nginx do: what is asked for compressed comes compressed."""
    said = b'{"usage": {"prompt_tokens": 600, "completion_tokens": 500}}'

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        encoded = seen.get(b"accept-encoding") != []
        body = gzip.compress(said) if encoded else said
        about = b"Content-Encoding: gzip\r\n" if encoded else b""
        connection.transport.write(OK + about + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    replica.script = script
    in_force(rig, THOUSAND)
    client = await rig.client()
    asks = (b"Accept: */*", b"accept-encoding: gzip", b"X-Own: 1", b"Accept-Encoding: br;q=0.5, gzip")
    asked = request(b"/v1/chat/completions", b'{"model": "f"}', *asks)
    answer = await client.ask(asked)
    assert (answer.status, answer.body) == (200, said)
    assert (replica.requests[0].get(b"accept"), replica.requests[0].get(b"x-own")) == ([b"*/*"], [b"1"])
    assert counters(rig).tokens == 1100
    assert (await client.ask(asked)).status == 429
    # Whoever has no such limit gets what was asked for.
    answer = await client.ask(asked.replace(KEY, OTHER))
    assert (answer.status, answer.get(b"content-encoding")) == (200, [b"gzip"])
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=9))
    assert (await client.ask(asked)).get(b"content-encoding") == [b"gzip"]


async def test_a_burst_is_held_back_by_what_it_may_take(rig: Rig, replica: Replica) -> None:
    """400 bytes are taken for 100 tokens each, until it is known that they took 5."""
    in_force(rig, THOUSAND)
    gate = Gate(replica, whole('{"usage": {"prompt_tokens": 3, "completion_tokens": 2}}'))
    clients = [await rig.client() for _ in range(12)]
    asked = request(body=b'{"model": "f", "x": "%b"}' % (b"x" * 377))
    assert len(asked.partition(b"\r\n\r\n")[2]) == 400
    for client in clients:
        client.send(asked)
    refused = [await client.answer() for client in clients[10:]]
    assert [answer.status for answer in refused] == [429, 429]
    assert [answer.get(b"retry-after") for answer in refused] == [[b"1"], [b"1"]]
    await until(lambda: gate.waiting == 10)
    gate.open()
    assert [(await client.answer()).status for client in clients[:10]] == [200] * 10
    assert counters(rig).tokens == 50
    assert (await clients[11].ask(asked)).status == 200


async def test_a_body_that_does_not_tell_its_size_reserves_the_most(rig: Rig, replica: Replica) -> None:
    in_force(rig, THOUSAND)
    answers = asyncio.Event()

    async def wait(connection: ReplicaConnection, seen: Seen) -> None:
        await answers.wait()
        connection.transport.write(OK_ANSWER)

    replica.script = wait
    first, second = await rig.client(), await rig.client()
    body = b'{"model": "f"}'
    chunked = request(body=body).replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
    head, _, _ = chunked.partition(b"\r\n\r\n")
    first.send(head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    await until(lambda: replica.requests)
    assert (await second.ask(request())).status == 429
    answers.set()
    assert (await first.answer()).status == 200
