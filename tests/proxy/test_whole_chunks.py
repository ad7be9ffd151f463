"""Chunks that come whole and by themselves pass at once, with their framing on, and in their place among what
passes in other ways."""

import pytest

from routing.http.chunked import LAST_CHUNK, ChunkedDecoder, frame
from tests.fuzzing.wire import Transport, Wire

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ASK = b'{"model": "m", "stream": true}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(ASK), ASK)
EVENTS = [b'data: {"n": %d}\n\n' % number for number in range(6)]
CHUNKS = [frame(event) for event in EVENTS]


def body(transport: Transport) -> bytes:
    """What the chunks hold that the client has so far."""
    return ChunkedDecoder().feed(bytes(transport.written).partition(b"\r\n\r\n")[2])


async def test_bytes_of_one_turn_keep_their_order() -> None:
    wire = Wire()
    client, transport = wire.client()
    ((replica, _),) = wire.replicas(1)
    client.data_received(REQUEST)
    wire.settle()
    first, second, cut, whole, *together = CHUNKS
    for segment in (HEAD, first, second, cut[:7], cut[7:], whole, b"".join(together), second):
        replica.data_received(segment)
    assert body(transport) == b"".join([*EVENTS, EVENTS[1]]), "what came last waits for no end of the turn"
    replica.data_received(LAST_CHUNK)
    wire.settle()
    assert transport.written.endswith(second + LAST_CHUNK)
    assert wire.is_idle(replica)


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
