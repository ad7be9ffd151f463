"""Whether a stream that has ended is a whole answer, by what its protocol says."""

import json

import pytest

from routing.protocols.answer_shape import CHOICES, CONTENT, OUTPUT, UNJUDGED, mark_of
from routing.protocols.stream_end import StreamEnd, end_of, follows, has_last_event

DONE = b"data: [DONE]\n\n"


def event(**members: object) -> bytes:
    return b"data: " + json.dumps(members).encode() + b"\n\n"


def token(text: str = "word", finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return event(id="x", choices=[choice])


USAGE = event(id="x", choices=[], usage={"prompt_tokens": 3})
DELTA = event(type="response.output_text.delta", delta="word", sequence_number=4)
STOP = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
SAYS = event(type="content_block_delta", delta={"text": "word"})


@pytest.mark.parametrize(
    ("mark", "tail", "end"),
    [
        (CHOICES, token() + DONE, StreamEnd.DONE),
        (CHOICES, token() + b"data:[DONE]\n\n", StreamEnd.DONE),
        (CHOICES, token() + token("", "stop"), StreamEnd.FINISHED),
        (CHOICES, token("", "length") + USAGE, StreamEnd.FINISHED),
        (CHOICES, token("", "content_filter") + USAGE + b": bye\n\n", StreamEnd.FINISHED),
        (CHOICES, token("", "stop").replace(b"\n", b"\r\n"), StreamEnd.FINISHED),
        (CHOICES, token(index=1) + token("", "stop", 1) + token("", "stop", 0), StreamEnd.FINISHED),
        (CHOICES, token() + token("", "stop", 1), StreamEnd.TRUNCATED),
        (CHOICES, token(), StreamEnd.TRUNCATED),
        (CHOICES, token("", ""), StreamEnd.TRUNCATED),
        (CHOICES, token() + USAGE, StreamEnd.TRUNCATED),
        (CHOICES, token() + token("", "stop")[:-30], StreamEnd.TRUNCATED),
        (CHOICES, token('\ndata: [DONE] "finish_reason":"stop"'), StreamEnd.TRUNCATED),
        (CHOICES, b": alive\n\n", StreamEnd.TRUNCATED),
        (CHOICES, b"", StreamEnd.TRUNCATED),
        (CHOICES, token() + event(error={"message": "engine died"}), StreamEnd.ERROR),
        (CONTENT, SAYS + STOP, StreamEnd.DONE),
        (CONTENT, SAYS + DONE, StreamEnd.DONE),
        (CONTENT, SAYS, StreamEnd.TRUNCATED),
        (CONTENT, event(type="message_delta", delta={"stop_reason": "end_turn"}), StreamEnd.TRUNCATED),
        (CONTENT, SAYS + event(type="error", error={"type": "overloaded_error"}), StreamEnd.ERROR),
        (OUTPUT, DELTA + event(type="response.completed", response={}), StreamEnd.DONE),
        (OUTPUT, DELTA + event(type="response.incomplete", response={}), StreamEnd.DONE),
        (OUTPUT, DELTA + event(type="response.failed", response={}), StreamEnd.DONE),
        (OUTPUT, DELTA, StreamEnd.TRUNCATED),
        (
            OUTPUT,
            event(type="response.output_text.delta", delta='"type":"response.completed"'),
            StreamEnd.TRUNCATED,
        ),
        (OUTPUT, DELTA + event(type="error", code="server_error"), StreamEnd.ERROR),
    ],
)
def test_the_end_of_a_stream(mark: bytes, tail: bytes, end: StreamEnd) -> None:
    assert end_of(mark, tail, cut=False) is end


def test_an_event_that_began_before_the_tail_is_held_against_nobody() -> None:
    """Such as the last one of a response, which repeats it, or one with many log probabilities."""
    long = token("x" * 100, "stop")[20:]
    assert end_of(CHOICES, long, cut=True) is StreamEnd.UNKNOWN
    assert end_of(CHOICES, long + USAGE, cut=True) is StreamEnd.UNKNOWN
    assert end_of(OUTPUT, long, cut=True) is StreamEnd.UNKNOWN
    assert end_of(CHOICES, long + token(), cut=True) is StreamEnd.TRUNCATED
    assert end_of(CHOICES, long + token("", "stop"), cut=True) is StreamEnd.FINISHED


def test_it_is_seen_in_chunks_too_and_never_in_what_is_said() -> None:
    assert has_last_event(CHOICES, b"e\r\ndata: [DONE]\n\n\r\n")
    assert has_last_event(CHOICES, b"\ndata:[DONE]\n\n")
    assert has_last_event(CHOICES, b"data: {}\r\rdata: [DONE]\r\r")
    assert has_last_event(CHOICES, token("[DONE]") + b"data: [DONE]")
    assert not has_last_event(CHOICES, token("\ndata: [DONE]"))
    assert not has_last_event(CHOICES, token("[DONE]\n\n"))
    assert has_last_event(OUTPUT, event(type="response.failed", response={}))
    assert not has_last_event(CONTENT, event(text='"type": "message_stop"'))


def test_only_calls_whose_streams_are_known_are_followed() -> None:
    known = (b"/v1/chat/completions", b"/v1/completions", b"/v1/responses", b"/v1/messages")
    assert all(follows(mark_of(b"POST", path)) for path in known)
    others = (b"/v1/embeddings", b"/v1/audio/transcriptions", b"/generate_stream", b"/v2/models/m/infer")
    assert not any(follows(mark_of(b"POST", path)) for path in others)
    assert not follows(UNJUDGED)
