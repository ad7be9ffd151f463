"""Streams that are cut, stall, or end before their answer does: no client takes them for whole ones."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from routing.contract.policy import Policy, Retries, Timeouts
from tests.routing.proxy.rig import OK, Answer, Replica, ReplicaConnection, Rig, Script, Seen, until

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
MESSAGE = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"word"}}\n\n'
DELTA = b'event: d\ndata: {"type":"response.output_text.delta","delta":"word","sequence_number":3}\n\n'
HEAD = OK + b"Content-Type: text/event-stream\r\n"
CHAT, MESSAGES, RESPONSES = b"/v1/chat/completions", b"/v1/messages", b"/v1/responses"
ENDS = pytest.mark.parametrize("framing", ["chunks", "close"])


def policy(**timeouts: float) -> Policy:
    settings = Timeouts(**timeouts)
    return Policy(
        strategy="round_robin", slow_start_s=0, timeouts=settings, retries=Retries(replay_safe="never")
    )


def stream(events: Sequence[bytes], framing: str = "chunks", then: str = "end") -> Script:
    """``then``: ``end``, ``cut`` or ``stall``."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        write = connection.transport.write
        chunks = framing == "chunks"
        write(HEAD + b"Transfer-Encoding: chunked\r\n" * chunks + b"\r\n")
        for event in events:
            await asyncio.sleep(0.005)
            write(b"%x\r\n%b\r\n" % (len(event), event) if chunks else event)
        await asyncio.sleep(0.005)
        if then == "end" and chunks:
            write(b"0\r\n\r\n")
        elif then != "stall":
            connection.transport.close()

    return script


def request(path: bytes = CHAT, minor: int = 1, model: str = "f") -> bytes:
    body = json.dumps({"model": model, "stream": True, "messages": []}).encode()
    return b"POST %b HTTP/1.%d\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (
        path,
        minor,
        len(body),
        body,
    )


async def ask(rig: Rig, replica: Replica, script: Script, path: bytes = CHAT, minor: int = 1) -> Answer:
    replica.script = script
    client = await rig.client()
    answer = await client.ask(request(path, minor))
    if not answer.complete:
        assert await client.ends() == b""
    return answer


def error_in(answer: Answer) -> dict[str, object]:
    """The last event's data."""
    last = answer.body.rstrip(b"\n").rpartition(b"\ndata: ")[2]
    found: dict[str, object] = json.loads(last)
    return found


@pytest.fixture
async def replica(rig: Rig) -> Replica:
    replica = await rig.replica()
    rig.fleet(replica, policy=policy(), protocol="openai")
    return replica


@ENDS
@pytest.mark.parametrize(
    ("path", "event"), [(CHAT, TOKEN), (b"/v1/completions", TOKEN), (MESSAGES, MESSAGE), (RESPONSES, DELTA)]
)
async def test_a_truncated_stream_is_told(
    rig: Rig, replica: Replica, path: bytes, event: bytes, framing: str
) -> None:
    answer = await ask(rig, replica, stream([event] * 3, framing), path)
    assert answer.body.startswith(event * 3)
    assert not answer.complete
    assert b"[DONE]" not in answer.body
    said = error_in(answer)
    assert "truncated" in json.dumps(said)
    assert ("type" in said) is (path in (MESSAGES, RESPONSES))
    known = rig.table.fleets["f"].replicas[0]
    await until(lambda: known.failed == 1)
    assert (known.succeeded, known.outcomes.truncated) == (0, 1)
    assert rig.table.fleets["f"].counters.errors == 1


@ENDS
@pytest.mark.parametrize(
    ("path", "events"),
    [
        (CHAT, [TOKEN, LAST, DONE]),
        (CHAT, [TOKEN, LAST]),
        (CHAT, [TOKEN, DONE]),
        (CHAT, [TOKEN, b'data: {"error":{"message":"the engine died"}}\n\n']),
        (MESSAGES, [MESSAGE, b'event: message_stop\ndata: {"type":"message_stop"}\n\n']),
        (RESPONSES, [DELTA, b'event: r\ndata: {"type":"response.incomplete","response":{}}\n\n']),
        # Nothing is known of how these end.
        (b"/v1/audio/transcriptions", [b'data: {"type":"transcript.text.delta","delta":"word"}\n\n']),
        (b"/v1/something", [TOKEN]),
    ],
)
async def test_a_whole_stream_comes_as_it_is(
    rig: Rig, replica: Replica, path: bytes, events: list[bytes], framing: str
) -> None:
    answer = await ask(rig, replica, stream(events, framing), path)
    assert (answer.body, answer.complete) == (b"".join(events), True)
    assert rig.table.fleets["f"].replicas[0].outcomes.truncated == 0


async def test_a_generic_fleet_is_left_alone(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=policy(), protocol="generic")
    answer = await ask(rig, replica, stream([TOKEN]), b"/fleets/f" + CHAT)
    assert (answer.body, answer.complete) == (TOKEN, True)


async def test_a_client_that_knows_no_chunks_is_told_by_a_reset(rig: Rig, replica: Replica) -> None:
    answer = await ask(rig, replica, stream([TOKEN]), minor=0)
    assert answer.body.startswith(TOKEN + b'data: {"error":')
    assert not answer.complete


async def test_one_of_a_known_length_is_not_completed(rig: Rig, replica: Replica) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(HEAD + b"Content-Length: %d\r\n\r\n" % (2 * len(TOKEN)))
        for _ in range(2):
            await asyncio.sleep(0.01)
            connection.transport.write(TOKEN)

    answer = await ask(rig, replica, script)
    assert (answer.body, answer.complete) == (TOKEN, False)


@pytest.mark.parametrize("length", [b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(TOKEN)])
async def test_one_that_comes_in_one_piece_is_an_error_response(
    rig: Rig, replica: Replica, length: bytes
) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(TOKEN), TOKEN)
        connection.transport.write(HEAD + length + b"\r\n\r\n" + (chunk if b"chunked" in length else TOKEN))

    answer = await ask(rig, replica, script)
    assert answer.status == 502
    assert json.loads(answer.body)["error"]["code"] == "truncated"


async def test_it_is_asked_of_another_if_it_may_be(rig: Rig) -> None:
    wrong, right = await rig.replica(), await rig.replica()
    rig.fleet(wrong, right, policy=Policy(strategy="round_robin", slow_start_s=0), protocol="openai")
    right.script = stream([TOKEN, DONE])

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")

    wrong.script = script
    for _ in range(4):
        client = await rig.client()
        answer = await client.ask(request())
        assert (answer.status, answer.body) == (200, TOKEN + DONE)
    assert len(wrong.requests) == 2


@pytest.mark.parametrize("broken", [b"", b'data: {"choices":[{"ind'])
async def test_a_stream_that_is_cut_gets_an_error_event(rig: Rig, replica: Replica, broken: bytes) -> None:
    answer = await ask(rig, replica, stream([TOKEN, *([broken] if broken else [])], then="cut"))
    assert answer.body.startswith(TOKEN + broken)
    assert not answer.complete
    assert "replica_lost" in json.dumps(error_in(answer)) or "bad_response" in json.dumps(error_in(answer))


async def test_so_does_one_that_stalls(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=policy(idle_s=0.2), protocol="openai")
    answer = await ask(rig, replica, stream([TOKEN], then="stall"))
    assert answer.body.startswith(TOKEN + b'data: {"error":')
    assert not answer.complete
    assert '"timeout"' in json.dumps(error_in(answer))


async def test_a_stream_that_is_cut_after_its_last_event_gets_none(rig: Rig, replica: Replica) -> None:
    answer = await ask(rig, replica, stream([TOKEN, LAST, DONE], then="cut"))
    assert answer.body == TOKEN + LAST + DONE
    assert not answer.complete
