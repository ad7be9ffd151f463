"""Which bodies are answers of their protocol: real servers' answers, empty ones, and what is none."""

import json

import pytest

from routing.protocols.answer_shape import (
    UNJUDGED,
    BodyInPieces,
    EventStream,
    Shape,
    is_judged,
    mark_of,
    shape_of,
)

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8"
CHAT, TEXT, EMBED = b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"
RESPONSES, MESSAGES, INFER = b"/v1/responses", b"/v1/messages", b"/v2/models/digits/infer"


def chat(**message):
    return {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", **message}}]}


def shape(path, answer, head=JSON):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return shape_of(mark_of(b"POST", path), head, body)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (CHAT, chat(content="Hello")),
        (CHAT, chat(content=None, tool_calls=[{"id": "t"}])),
        (CHAT, chat(content="", reasoning_content="Well")),
        (TEXT, {"choices": [{"text": " word"}]}),
        (EMBED, {"object": "list", "data": [{"embedding": [0.1, 0.2]}]}),
        (EMBED, {"data": [{"embedding": "AAAA"}]}),
        (EMBED, b'{"data": [{"embedding": [NaN, 1.0]}]}'),
        (RESPONSES, {"output": [{"type": "message"}]}),
        (MESSAGES, {"content": [{"type": "text", "text": "Hi"}]}),
        (INFER, {"outputs": [{"name": "y", "shape": [1], "data": [3]}]}),
        (INFER, {"outputs": [{"name": "y", "shape": [1], "parameters": {"binary_data_size": 4}}]}),
    ],
)
def test_answers_with_content(path, answer):
    assert shape(path, answer) is Shape.WHOLE


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (CHAT, chat(content="")),
        (CHAT, chat(content=None, tool_calls=[])),
        (TEXT, {"choices": [{"text": ""}]}),
        (EMBED, {"data": [{"embedding": []}]}),
        (RESPONSES, {"status": "queued", "output": []}),
        (MESSAGES, {"content": []}),
        (INFER, {"outputs": [{"name": "y", "shape": [0], "data": []}]}),
    ],
)
def test_answers_that_are_well_formed_and_empty(path, answer):
    assert shape(path, answer) is Shape.EMPTY


@pytest.mark.parametrize("path", [CHAT, TEXT, EMBED, RESPONSES, MESSAGES, INFER])
@pytest.mark.parametrize(
    "answer",
    [b"", b"ok", b"<html>it works</html>", b"{}", b"[]", b'{"error": {"message": "out of memory"}}', b"\xff"],
)
def test_what_is_no_answer_in_any_protocol(path, answer):
    assert shape(path, answer) is Shape.NONE


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (CHAT, {"choices": []}),
        (CHAT, {"choices": "none"}),
        (CHAT, b'{"id": "x", "choices": [{"mess'),
        (EMBED, {"data": {}}),
        (INFER, {"outputs": []}),
        (INFER, {"model_name": "digits"}),
    ],
)
def test_what_lacks_the_result_or_its_end(path, answer):
    assert shape(path, answer) is Shape.NONE


def test_binary_tensors_stand_behind_the_object():
    answer = json.dumps({"outputs": [{"name": "y", "parameters": {"binary_data_size": 2}}]}).encode()
    head = JSON + b"\r\nInference-Header-Content-Length: %d" % len(answer)
    assert shape(INFER, answer + b"\x00\xff", head) is Shape.WHOLE


def test_a_stream_of_events():
    word = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    done = b"data: [DONE]\n\n"
    assert shape(CHAT, role + word + done, EVENTS) is Shape.WHOLE
    assert shape(CHAT, role + done, EVENTS) is Shape.EMPTY
    assert shape(CHAT, done, EVENTS) is Shape.NONE
    assert shape(CHAT, b'data: {"error": {"message": "engine"}}\n\n' + done, EVENTS) is Shape.NONE
    assert shape(CHAT, b": ping\n\n", EVENTS) is Shape.NONE
    delta = b'event: content_block_delta\ndata: {"delta":{"type":"text_delta","text":"Hi"}}\n\n'
    assert shape(MESSAGES, delta, EVENTS) is Shape.WHOLE
    assert shape(MESSAGES, b'event: message_stop\ndata: {"type":"message_stop"}\n\n', EVENTS) is Shape.EMPTY
    assert shape(MESSAGES, b"", EVENTS) is Shape.NONE


def test_a_stream_that_is_cut_anywhere_is_read_alike():
    empty, word = (b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % said for said in (b"", b"w"))
    text = empty + word
    for at in range(len(text)):
        events = EventStream(mark_of(b"POST", CHAT))
        events.feed(text[:at])
        events.feed(text[at:])
        assert events.shape() is Shape.WHOLE


def test_a_body_in_pieces():
    answer = json.dumps(chat(content="Hello")).encode()
    long_answer = json.dumps({"data": [{"embedding": [0.5] * 10_000}]}).encode()
    for path, body, found in (
        (CHAT, answer, Shape.WHOLE),
        (CHAT, b"<html>" + b"x" * 20_000, Shape.NONE),
        (CHAT, b"{}", Shape.NONE),
        (EMBED, long_answer, Shape.WHOLE),
    ):
        for size in (1, 7, 4096):
            pieces = BodyInPieces(mark_of(b"POST", path), JSON)
            for at in range(0, len(body), size):
                pieces.feed(body[at : at + size])
            assert pieces.shape() is found


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"GET", CHAT),
        (b"POST", b"/v1/rerank"),
        (b"POST", b"/v1/audio/transcriptions"),
        (b"POST", b"/v1/messages/count_tokens"),
        (b"POST", b"/v2/models/digits/generate"),
        (b"POST", b"/tokenize"),
        (b"POST", b"/work"),
    ],
)
def test_calls_that_are_not_judged(method, target):
    assert mark_of(method, target) == UNJUDGED


@pytest.mark.parametrize(
    "target",
    [CHAT + b"?user=a", b"/chat/completions", b"/openai/v1/chat/completions",
     b"/openai/deployments/gpt/chat/completions?api-version=1", b"/v2/models/a%2Fb/versions/2/infer"],
)  # fmt: skip
def test_other_forms_of_the_same_calls(target):
    assert mark_of(b"POST", target) != UNJUDGED


def test_only_a_plain_200_of_its_own_protocol_is_judged():
    mark = mark_of(b"POST", CHAT)
    assert is_judged(mark, "openai", 200, JSON)
    assert not is_judged(mark, "openai", 202, JSON)
    assert not is_judged(mark, "generic", 200, JSON)
    assert not is_judged(mark, "openai", 200, JSON + b"\r\ncontent-encoding: gzip")
    assert is_judged(mark, "openai", 200, JSON + b"\r\ncontent-encoding: identity")
    assert not is_judged(mark_of(b"POST", INFER), "openai", 200, JSON)
