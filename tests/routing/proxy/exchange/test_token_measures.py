"""Time to first token, time between tokens, and tokens of prompts, as answers pass."""

import asyncio
import time

from routing.balancing.pool.pool import Pool
from routing.contract.policy import Policy, Slo
from routing.contract.sketch import value_of
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Script, Seen

GAP_S = 0.04
USAGE = b'"usage":{"prompt_tokens":11,"total_tokens":14,"completion_tokens":3}'


def chat(stream: bool = True) -> bytes:
    body = b'{"model":"f","stream":%b,"messages":[{"role":"user","content":"hello there"}]}' % (
        b"true" if stream else b"false"
    )
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def event(content: bytes, more: bytes = b"") -> bytes:
    delta = b'{"choices":[{"index":0,"delta":{"content":"%b"}}]%b}' % (content, more)
    return b"data: " + delta + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answering(data: bytes) -> Script:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(data)

    return script


def streamed(tokens: int, usage: bytes = b"", gap_s: float = GAP_S) -> tuple[list[float], Script]:
    """A script that sends so many tokens, and when it sent each."""
    sent: list[float] = []

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        write = connection.transport.write
        await asyncio.sleep(gap_s)
        write(OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(tokens):
            if number:
                await asyncio.sleep(gap_s)
            sent.append(time.monotonic())
            write(chunk(event(b"t%d" % number)))
        last = b"data: {%b}\n\n" % usage if usage else b""
        write(chunk(last + b"data: [DONE]\n\n") + b"0\r\n\r\n")

    return sent, script


async def fleet(rig: Rig, policy: Policy | None = None) -> tuple[Replica, Client, Pool]:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", policy=policy)
    return replica, await rig.client(), rig.table.fleets["f"]


def only(sketch: dict[int, int]) -> float:
    ((bucket, count),) = sketch.items()
    assert count == 1
    return value_of(bucket)


async def test_a_stream_tells_its_first_token_and_the_time_between_tokens(rig: Rig) -> None:
    replica, client, pool = await fleet(rig, Policy(slo=Slo(first_token_s=GAP_S / 10), slow_start_s=0))
    _, replica.script = streamed(6, USAGE.replace(b'"completion_tokens":3', b'"completion_tokens":6'))
    began = time.monotonic()
    response = await client.ask(chat())
    assert response.body.count(b"data:") == 8
    counters, kept = pool.counters, pool.replicas[0]
    # Whatever else the machine does: not before the replica sent it, and not after the client had it.
    took_s = 1.02 * (time.monotonic() - began)
    assert 0.98 * GAP_S <= only(counters.first_token) <= took_s
    assert GAP_S / 5 <= only(counters.between_tokens) <= took_s / 5
    assert kept.streams is not None
    assert only(kept.streams.between_tokens) == only(counters.between_tokens)
    assert 0.98 * GAP_S <= only(kept.streams.first_token) <= only(counters.first_token)
    ended = pool.totals.report()
    assert (ended.served, ended.input_tokens, ended.output_tokens) == (1, 11, 6)
    assert (ended.streams, ended.late_streams) == (1, 1)
    assert (kept.input_tokens, kept.output_tokens) == (11, 6)


async def test_a_plain_answer_has_tokens_and_no_token_times(rig: Rig) -> None:
    replica, client, pool = await fleet(rig)
    replica.script = answering(OK + b"Content-Length: %d\r\n\r\n{%b}" % (len(USAGE) + 2, USAGE))
    await client.ask(chat(stream=False))
    ended, kept = pool.totals.report(), pool.replicas[0]
    assert (ended.served, ended.input_tokens, ended.output_tokens) == (1, 11, 3)
    assert (kept.input_tokens, kept.output_tokens, kept.streams) == (11, 3, None)
    assert not pool.counters.first_token
    assert not pool.counters.between_tokens


async def test_a_prompt_of_which_nothing_is_told_is_estimated(rig: Rig) -> None:
    replica, client, pool = await fleet(rig)
    _, replica.script = streamed(4, gap_s=0.0)
    await client.ask(chat())
    ended = pool.totals.report()
    body = chat().partition(b"\r\n\r\n")[2]
    assert (ended.input_tokens, ended.output_tokens) == (len(body) // 4, 4)


async def test_a_stream_in_one_piece_counts_as_one_in_many(rig: Rig) -> None:
    replica, client, pool = await fleet(rig)
    answer = b"".join(event(b"t%d" % number) for number in range(4)) + b"data: [DONE]\n\n"
    head = OK + b"Content-Type: text/event-stream\r\n"
    body = chat().partition(b"\r\n\r\n")[2]
    for number, whole in enumerate(
        (
            head + b"Content-Length: %d\r\n\r\n" % len(answer) + answer,
            head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(answer) + b"0\r\n\r\n",
        ),
        1,
    ):
        replica.script = answering(whole)
        await client.ask(chat())
        ended, kept = pool.totals.report(), pool.replicas[0]
        assert (ended.served, ended.output_tokens) == (number, 4 * number)
        assert ended.input_tokens == kept.input_tokens == number * (len(body) // 4)
        assert kept.output_tokens == 4 * number


async def test_errors_have_a_reason(rig: Rig) -> None:
    replica, client, pool = await fleet(rig)
    for status in (500, 502, 404):
        replica.script = answering(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\n{}" % status)
        await client.ask(chat(stream=False))
    await replica.stop()
    await client.ask(chat(stream=False))
    ended = pool.totals.report()
    assert ended.errors == {"replica_500": 1, "replica_5xx": 1, "replica_unreachable": 1}
    assert (ended.served, ended.client_errors, ended.requests) == (0, 1, 4)
    failed = pool.replicas[0].outcomes.failed_by
    assert failed["failed"] == 2
    assert failed["refused"] >= 1
