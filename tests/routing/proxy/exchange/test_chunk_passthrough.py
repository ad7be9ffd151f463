"""Chunks that come whole and by themselves pass at once, with their framing on, and in their place among what
passes in other ways."""

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from routing.http.chunked import LAST_CHUNK, ChunkedDecoder, encode_chunk
from routing.ipc.access_log import AccessLog
from tests.fuzzing.wire import Transport, Wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ASK = b'{"model": "m", "stream": true}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(ASK), ASK)
EVENTS = [b'data: {"n": %d}\n\n' % number for number in range(6)]
DONE = encode_chunk(b"data: [DONE]\n\n")
CHUNKS = [encode_chunk(event) for event in EVENTS]


def body(transport: Transport) -> bytes:
    """What the chunks hold that the client has so far."""
    return ChunkedDecoder().feed(bytes(transport.written).partition(b"\r\n\r\n")[2])


# What makes a response is listened to, until the response says its name: these never do.
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/responses"])
@pytest.mark.parametrize("logged", [False, True])
async def test_bytes_of_one_turn_keep_their_order(path: bytes, logged: bool, tmp_path: Path) -> None:
    wire = Wire()
    log = AccessLog(str(tmp_path / "access.log"), "json", "proxy/worker/0")
    if logged:
        wire.proxy.log_to(log)
    client, transport = wire.client()
    ((replica, _),) = wire.replicas(1)
    client.data_received(REQUEST.replace(b"/v1/chat/completions", path))
    wire.settle()
    first, second, cut, whole, *together = CHUNKS
    for segment in (HEAD, first, second, cut[:7], cut[7:], whole, b"".join(together), second):
        replica.data_received(segment)
    assert body(transport) == b"".join([*EVENTS, EVENTS[1]]), "what came last waits for no end of the turn"
    replica.data_received(DONE)
    replica.data_received(LAST_CHUNK)
    wire.settle()
    assert transport.written.endswith(second + DONE + LAST_CHUNK)
    assert wire.is_idle(replica)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert [line["bytes"] for line in lines] == ([len(transport.written)] if logged else [])


async def test_a_chunk_for_a_client_whose_transport_is_closed_harms_nobody() -> None:
    """As uvloop closes it where a write fails: its protocol hears of that in the next turn."""
    wire = Wire()
    client, transport = wire.client()
    ((replica, link),) = wire.replicas(1)
    client.data_received(REQUEST)
    wire.settle()
    replica.data_received(HEAD)
    replica.data_received(CHUNKS[0])
    transport.abort()
    with pytest.raises(RuntimeError):
        transport.write(b"x")
    replica.data_received(CHUNKS[1])
    assert not link.aborted
    client.connection_lost(None)
    assert link.aborted


async def test_what_looks_like_a_chunk_within_a_chunk_is_data() -> None:
    wire = Wire()
    client, transport = wire.client()
    ((replica, _),) = wire.replicas(1)
    client.data_received(REQUEST)
    wire.settle()
    for segment in (HEAD, CHUNKS[0], b"%x\r\n" % (2 * len(CHUNKS[0])), CHUNKS[0], CHUNKS[1], b"\r\n"):
        replica.data_received(segment)
    wire.settle()
    assert body(transport) == EVENTS[0] + CHUNKS[0] + CHUNKS[1]


class Streaming:
    """One stream, three events of which have passed, unread as yet."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.client, self.transport = self.wire.client()
        ((self.upstream, self.link),) = self.wire.replicas(1)
        self.client.data_received(REQUEST)
        self.wire.settle()
        self.fleet = self.wire.proxy.table.fleets["m"]
        self.replica = self.fleet.replicas[0]
        # The first one comes with the head, and is no chunk that passes.
        for segment in (HEAD + CHUNKS[0], CHUNKS[1], CHUNKS[2] + CHUNKS[3]):
            self.upstream.data_received(segment)

    def look(self, seconds: float) -> None:
        """As the sweep does, so much later."""
        self.client.check(monotonic() + seconds)


def lose(stream: Streaming) -> None:
    stream.upstream.connection_lost(None)


def leave(stream: Streaming) -> None:
    stream.client.connection_lost(None)


@pytest.mark.parametrize("end", [lose, leave])
async def test_what_passed_is_counted_however_it_ends(end: Callable[[Streaming], None]) -> None:
    stream = Streaming()
    end(stream)
    assert stream.replica.output_tokens == 4


async def test_what_passed_is_counted_once_and_in_its_place() -> None:
    stream = Streaming()
    for segment in (CHUNKS[4][:9], CHUNKS[4][9:], CHUNKS[5], encode_chunk(b"data: [DONE]\n\n") + LAST_CHUNK):
        stream.look(0)
        stream.upstream.data_received(segment)
    assert stream.replica.output_tokens == 6


async def test_the_said_usage_is_heard_in_what_passed() -> None:
    stream = Streaming()
    said = b'data: {"usage": {"completion_tokens": 77}}\n\n'
    for segment in (encode_chunk(said), encode_chunk(said), encode_chunk(b"data: [DONE]\n\n") + LAST_CHUNK):
        stream.upstream.data_received(segment)
    assert stream.replica.output_tokens == 77


async def test_a_stream_is_silent_only_from_what_passed_last() -> None:
    stream = Streaming()
    silence = stream.fleet.policy.timeouts.idle_s
    stream.look(silence * 0.9)
    assert stream.replica.last_heard_at > monotonic() + silence * 0.8
    stream.upstream.data_received(CHUNKS[4])
    stream.look(silence * 1.8)
    stream.look(silence * 2.7)
    assert not stream.link.aborted
    stream.look(silence * 2.9)
    assert stream.link.aborted
