"""What is kept of a stream's tail: enough to see its end, however it came, and little."""

import random

import pytest

from routing.http.chunked import encode_chunk
from routing.protocols.answer_shape import CHOICES, OUTPUT, UNJUDGED
from routing.protocols.stream_end import TAIL_BYTES, StreamEnd
from routing.proxy.exchange.sent_tail import SentTail, tail_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def tail(chunks: bool = True, mark: bytes = CHOICES, head: bytes = HEAD) -> SentTail:
    found = tail_of(mark, "openai", 200, head, chunks)
    assert found is not None
    return found


def feed(into: SentTail, stream: bytes, size: int, chunks: bool) -> None:
    for at in range(0, len(stream), size):
        piece = stream[at : at + size]
        into.keep(encode_chunk(piece) if chunks else piece)


@pytest.mark.parametrize("chunks", [True, False])
@pytest.mark.parametrize("size", [1, 7, 83, 500, 20_000, 1 << 20])
@pytest.mark.parametrize(
    ("ending", "end"),
    [(DONE, StreamEnd.DONE), (LAST, StreamEnd.FINISHED), (b"", StreamEnd.TRUNCATED)],
)
def test_the_end_is_seen_whatever_the_pieces(chunks: bool, size: int, ending: bytes, end: StreamEnd) -> None:
    for events in (0, 1, 5, 1000):
        found = tail(chunks)
        feed(found, TOKEN * events + ending, size, chunks)
        assert found.end() is end


def test_what_is_kept_is_the_end_in_order() -> None:
    rng = random.Random(4)
    stream = bytes(rng.randrange(97, 123) for _ in range(60_000))
    found, at = tail(), 0
    while at < len(stream):
        pieces = []
        for _ in range(rng.randrange(1, 9)):
            size = rng.choice((3, 300, 3000))
            if stream[at : at + size]:
                pieces.append(encode_chunk(stream[at : at + size]))
            at += size
        if rng.random() < 0.5:
            found.keep_all(pieces)
        else:
            for piece in pieces:
                found.keep(piece)
        assert stream[:at].endswith(found.text())
        assert len(found.text()) >= min(at, TAIL_BYTES[CHOICES], len(stream))


def test_little_is_kept() -> None:
    found = tail()
    for _ in range(20_000):
        found.keep(encode_chunk(TOKEN))
    found.keep_all([encode_chunk(b"x" * 1_000_000)])
    found.keep_all([encode_chunk(b"y" * 1000)] * 64)
    assert len(found.text()) < 16 * TAIL_BYTES[CHOICES]


def test_the_last_piece_counts_though_it_is_not_sent() -> None:
    found = tail()
    feed(found, TOKEN + b"data: [DO", 50, chunks=True)
    assert found.end() is StreamEnd.TRUNCATED
    assert found.end(b"NE]\n\n") is StreamEnd.DONE
    assert tail().end(TOKEN + LAST) is StreamEnd.FINISHED


def test_of_what_is_encoded_nothing_is_known() -> None:
    assert tail(head=HEAD + b"\r\nContent-Encoding: gzip").end(b"\x1f\x8b") is StreamEnd.UNKNOWN
    assert tail(head=HEAD + b"\r\nContent-Encoding: identity").end(TOKEN) is StreamEnd.TRUNCATED


def test_a_long_last_event_of_a_response() -> None:
    found = tail(mark=OUTPUT)
    last = (
        b'event: response.completed\ndata: {"type":"response.completed","text":"' + b"x" * 300_000 + b'"}\n\n'
    )
    feed(found, TOKEN + last, 4096, chunks=True)
    assert found.end() is StreamEnd.UNKNOWN


def test_other_responses_have_none() -> None:
    assert tail_of(UNJUDGED, "openai", 200, HEAD, True) is None
    assert tail_of(CHOICES, "generic", 200, HEAD, True) is None
    assert tail_of(CHOICES, "openai", 500, HEAD, True) is None
