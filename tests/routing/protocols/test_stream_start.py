"""When a stream has begun to answer: what is only a beginning, what is content, what is neither."""

import pytest

from routing.protocols.answer_shape import CHOICES, CONTENT, OUTPUT
from routing.protocols.stream_start import Start, StreamStart, is_idle

NOTHING, CONTENT_, MALFORMED, FAILED = Start.NOTHING, Start.CONTENT, Start.MALFORMED, Start.FAILED


@pytest.mark.parametrize(
    ("mark", "data", "expected"),
    [
        (CHOICES, b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}', NOTHING),
        (CHOICES, b'{"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]}', NOTHING),
        (CHOICES, b'{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}', NOTHING),
        (CHOICES, b'{"choices":[{"index":0,"text":"","finish_reason":null}]}', NOTHING),
        (CHOICES, b'{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}', NOTHING),
        (CHOICES, b'{"choices":[{"delta":{"role":"assistant","content":"a"}}]}', CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{"reasoning_content":"a"}}]}', CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}', CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{}},{"delta":{"content":"a"}}]}', CONTENT_),
        (CHOICES, b'{"choices":[{"text":" "}]}', CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{},"finish_reason":"content_filter"}]}', CONTENT_),
        (CHOICES, b'{"choices":[],"error":{"message":"the engine died"}}', CONTENT_),
        (CHOICES, b'{"error":{"message":"the engine died"}}', CONTENT_),
        (CHOICES, b'{"error":{"message":"died","type":"InternalServerError","code":500}}', FAILED),
        (CHOICES, b'{"choices":[],"error":{"type":"server_error","code":null}}', FAILED),
        (CHOICES, b'{"error":{"type":"rate_limit_error","code":429}}', FAILED),
        (CHOICES, b'{"error":{"type":"server_error","code":400}}', CONTENT_),
        (CHOICES, b'{"error":{"type":"BadRequestError","code":400}}', CONTENT_),
        (CHOICES, b'{"error":{"type":"invalid_request_error","code":"content_filter"}}', CONTENT_),
        (CHOICES, b'{"error":"of another form"}', CONTENT_),
        (CHOICES, b'{"usage":{"completion_tokens":1}}', CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}', CONTENT_),
        (CHOICES, b'{"choices":"of another form"}', CONTENT_),
        (CHOICES, b"[DONE]", CONTENT_),
        (CHOICES, b'{"choices":[{"delta":{"cont', MALFORMED),
        (CHOICES, b"<html>", MALFORMED),
        (CHOICES, b"7", MALFORMED),
        (CONTENT, b'{"type":"message_start","message":{"content":[]}}', NOTHING),
        (CONTENT, b'{"type": "ping"}', NOTHING),
        (CONTENT, b'{"type":"content_block_start","content_block":{"type":"text","text":""}}', NOTHING),
        (CONTENT, b'{"type":"content_block_delta","delta":{"text":"a"}}', CONTENT_),
        (CONTENT, b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', CONTENT_),
        (CONTENT, b'{"type":"error","error":{"type":"overloaded_error"}}', FAILED),
        (CONTENT, b'{"type":"error","error":{"type":"invalid_request_error"}}', CONTENT_),
        (CONTENT, b'{"type":', MALFORMED),
        (OUTPUT, b'{"type":"response.created","response":{}}', NOTHING),
        (OUTPUT, b'{"type":"response.in_progress","response":{}}', NOTHING),
        (OUTPUT, b'{"type":"response.output_item.added","item":{}}', NOTHING),
        (OUTPUT, b'{"type":"response.output_text.delta","delta":"a"}', CONTENT_),
        (OUTPUT, b'{"type":"response.failed","response":{}}', CONTENT_),
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_one_event(mark: bytes, data: bytes, expected: Start, end: bytes) -> None:
    whole = b"data: " + data + end
    assert StreamStart(mark).feed(whole) is expected
    named = StreamStart(mark)
    pieces = [b": a comment" + end, b"event: name\ndata:" + data[:9], data[9:], end]
    assert [named.feed(piece) for piece in pieces] == [NOTHING, NOTHING, NOTHING, expected]


def test_what_comes_after_a_beginning() -> None:
    start = StreamStart(CHOICES)
    role = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'
    assert start.feed(role + role + b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n') is CONTENT_


def test_an_event_without_an_end_is_content_at_last() -> None:
    start = StreamStart(CHOICES)
    assert start.feed(b"data: {" + bytes(60_000)) is NOTHING
    assert start.feed(bytes(10_000)) is CONTENT_


@pytest.mark.parametrize(
    "piece",
    [
        b": ping\n\n",
        b":\r\n\r\n",
        b": one\n\n: two\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b'event: keepalive\ndata: {"type":"keepalive","sequence_number":4}\n\n',
        b"\n",
    ],
)
def test_idle(piece: bytes) -> None:
    assert is_idle(piece)


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        b'data: {"choices":[]}\n\n',
        b": ping\n\ndata: {}\n\n",
        b"event: ping_pong\ndata: {}\n\n",
        b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n',
        b': of a text that broke off"}',
    ],
)
def test_not_idle(piece: bytes) -> None:
    assert not is_idle(piece)
