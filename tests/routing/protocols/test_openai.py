"""What is read out of OpenAI requests and answers."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.http.chunked import decode_chunks, encode_chunk
from routing.protocols import openai
from routing.protocols.request_info import BadRequestBody
from tests.benchmarks.recorded import Answers

CHAT = b"/v1/chat/completions"


def work_of(target: bytes, body: bytes) -> float:
    _, _, work = openai.read(target, body)
    return work


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        # Without a limit only the prompt is known: its tokens, below 0.
        (CHAT, {"model": "m"}, ("m", False, -3.5)),
        (CHAT, {"model": "m", "stream": True}, ("m", True, -7.5)),
        (CHAT, {"model": "m", "stream": None, "max_tokens": None}, ("m", False, -12.5)),
        (CHAT, {}, ("", False, -0.5)),
        (CHAT, {"model": "m", "max_tokens": "many"}, ("m", False, 0.0)),
        (CHAT, {"model": "m", "max_tokens": -1}, ("m", False, -8.0)),
        (CHAT, {"model": "m", "max_tokens": 10**300}, ("m", False, -82.75)),
        (CHAT, {"model": "m", "max_tokens": 9, "n": -(10**300)}, ("m", False, -85.0)),
        (b"/v1/embeddings", {"model": "m", "max_tokens": 10**400}, ("m", False, 107.75)),
    ],
)
def test_read(target: bytes, body: object, expected: tuple[str, bool, float]) -> None:
    assert openai.read(target, json.dumps(body).encode()) == expected


def test_work_is_prompt_and_output_tokens() -> None:
    body = b'{"model":"m","max_tokens":100,"messages":["' + b"x" * 400 + b'"]}'
    work = work_of(CHAT, body)
    assert work == len(body) / 4 + 100
    more = work_of(CHAT, body.replace(b"max_tokens", b"max_completion_tokens"))
    assert more == pytest.approx(work, rel=0.05)
    assert work_of(CHAT, body[:-1] + b',"n":3}') > 300
    embeddings = b'{"model":"m","input":"hello"}'
    assert work_of(b"/v1/embeddings", embeddings) == len(embeddings) / 4


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"m"', b'{"model":5}', b'{"model":["m"]}', b"\xff"])
def test_refused(body: bytes) -> None:
    with pytest.raises(BadRequestBody):
        openai.read(CHAT, body)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers())),
        max_size=5,
    ),
    st.text(min_size=1, max_size=10),
)
def test_with_model_changes_the_model_alone(body: dict[str, object], model: str) -> None:
    changed = openai.with_model(json.dumps(body).encode(), model)
    assert json.loads(changed) == {**body, "model": model}


def test_with_model_keeps_values_byte_for_byte() -> None:
    body = b'{"a": 1.50, "model":"x", "b": [1e2, {"model" : "inner"}], "c":"\\u00e9"}'
    assert openai.with_model(body, "new") == (
        b'{"a":1.50,"model":"new","b":[1e2, {"model" : "inner"}],"c":"\\u00e9"}'
    )


def test_completion_tokens() -> None:
    usage = b'{"usage":{"prompt_tokens":5,"completion_tokens": 17,"total_tokens":22}}'
    assert openai.completion_tokens(usage) == 17
    assert openai.completion_tokens(b'{"usage":{"output_tokens":3}}') == 3
    assert openai.completion_tokens(b"{}") == 0


EVENTS = b'data: {"a":1}\n\ndata: {"a":2}\n\n: comment\n\ndata: {"data: x"}\n\ndata: [DONE]\n\n'


@given(st.lists(st.integers(0, len(EVENTS)), max_size=6))
def test_events_are_counted_however_they_are_cut(at: list[int]) -> None:
    tokens = openai.StreamTokenCounter()
    places = [0, *sorted(at), len(EVENTS)]
    counted = sum(tokens.feed(EVENTS[a:b]) for a, b in pairwise(places) if a != b)
    assert counted == 4
    assert tokens.total() == 3


def test_usage_in_a_stream_counts_more_than_events() -> None:
    tokens = openai.StreamTokenCounter()
    tokens.feed(EVENTS)
    tokens.feed(b'data: {"usage":{"completion_tokens":42}}\n\n')
    assert tokens.total() == 42


MESSAGE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"output_tokens":1}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hi"}}\n\n'
    b'event: ping\ndata: {"type":"ping"}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens": 123456}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@given(st.lists(st.integers(0, len(MESSAGE)), max_size=6))
def test_the_last_usage_of_a_stream_counts_however_it_is_cut(at: list[int]) -> None:
    tokens = openai.StreamTokenCounter()
    places = [0, *sorted(at), len(MESSAGE)]
    assert sum(tokens.feed(MESSAGE[a:b]) for a, b in pairwise(places) if a != b) == 5
    assert tokens.total() == 123456


USAGES = (
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":98,"total_tokens":99,'
    b'"completion_tokens":1}}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":98,"total_tokens":140,"completion_tokens":42},'
    b'"system_fingerprint":"x"}\n\ndata: [DONE]\n\n'
)


@given(st.lists(st.integers(0, len(USAGES)), max_size=6))
def test_the_usual_usage_of_a_stream_is_read_however_it_is_cut(at: list[int]) -> None:
    tokens = openai.StreamTokenCounter()
    places = [0, *sorted(at), len(USAGES)]
    for a, b in pairwise(places):
        if a != b:
            tokens.feed(USAGES[a:b])
    assert (tokens.prompt(), tokens.total()) == (98, 42)


@given(st.sampled_from([EVENTS, MESSAGE, USAGES]), st.lists(st.integers(0, 400), max_size=12), st.data())
def test_chunks_count_as_their_data_does(text: bytes, at: list[int], data: st.DataObject) -> None:
    """With their framing on or off, in any mixture, cut between events and within them."""
    ends = [at for at in range(1, len(text)) if text[:at].endswith(b"\n\n")]
    places = sorted(
        {0, *data.draw(st.sets(st.sampled_from(ends))), *(cut % len(text) for cut in at), len(text)}
    )
    plain, mixed = openai.StreamTokenCounter(), openai.StreamTokenCounter()
    passed: list[bytes] = []
    expected = 0

    def fed(chunks: list[bytes]) -> int:
        count = mixed.feed_framed(chunks, b"".join(chunks))
        return mixed.feed(decode_chunks(b"".join(chunks))) if count is None else count

    for a, b in pairwise(places):
        piece = text[a:b]
        framed = data.draw(st.booleans())
        chunk = encode_chunk(piece)
        if framed:
            passed.append(chunk)
            expected += plain.feed(piece)
        if passed and (not framed or data.draw(st.booleans())):
            assert fed(passed) == expected
            passed, expected = [], 0
        if not framed:
            assert mixed.feed(piece) == plain.feed(piece)
    fed(passed)
    assert mixed.total() == plain.total()


def test_a_stream_without_a_closing_line_counts_each() -> None:
    tokens = openai.StreamTokenCounter(closing=0)
    tokens.feed(b'data: {"text_output":"a"}\n\ndata: {"text_output":"b"}\n\n')
    assert tokens.total() == 2


def test_usage_at_the_end_of_a_long_answer() -> None:
    tokens = openai.TailTokenCounter()
    assert tokens.feed(b'{"text":"' + b"x" * 5000) == 0
    tokens.feed(b'","usage":{"completion_')
    tokens.feed(b'tokens":7}}')
    assert tokens.total() == 7


def test_model_list() -> None:
    listed = json.loads(openai.model_list(["a", "b"]))
    assert listed["data"][1] == {"id": "b", "object": "model", "created": 0, "owned_by": "switchyard"}


@pytest.mark.parametrize("cut", [1, 7, 40, 1000])
def test_a_streams_prompt_is_told_once_and_kept(cut: int) -> None:
    """As Anthropic's streams do: the prompt at the beginning, the answer's tokens at the end."""
    events = openai.StreamTokenCounter()
    stream = (
        b'event: message_start\ndata: {"message": {"usage": {"input_tokens": 2512, "output_tokens": 1}}}\n\n'
        + b'data: {"type": "content_block_delta", "delta": {"text": "tokens, and more tokens"}}\n\n' * 4
        + b'data: {"type": "message_delta", "usage": {"output_tokens": 15}}\n\n'
    )
    for at in range(0, len(stream), cut):
        events.feed(stream[at : at + cut])
    assert (events.prompt(), events.total()) == (2512, 15)


def test_tokens_of_a_whole_answer() -> None:
    usage = b'{"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}'
    tail = openai.TailTokenCounter()
    for at in range(len(usage)):
        tail.feed(usage[at : at + 1])
    assert (openai.usage_of(usage), tail.prompt(), tail.total()) == ((2, 9), 7, 2)
    assert openai.usage_of(b'{"usage": {"total_tokens": 56}}') == (0, 56)
    assert openai.usage_of(b'{"text": "\\"prompt_tokens\\": 5"}') is None


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_tokens_of_recorded_answers(kind: str) -> None:
    answers = Answers(kind)
    for _ in range(50):
        _, body = answers.whole(1.7e9)
        usage = json.loads(body)["usage"]
        assert openai.usage_of(body) == (usage["completion_tokens"], usage["total_tokens"])


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":2}}', (2, 7)),
        (b'{"usage":{"output_tokens":2,"input_tokens":5},"max_output_tokens":900}', (2, 7)),
        (b'{"usage":{"input_tokens":5,"kind":"usage","output_tokens":2}}', (2, 7)),
        (b'data: {"usage":{"input_tokens":5}}\n\ndata: {"usage":{"output_tokens":2}}\n\n', (2, 7)),
        (b'{"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}', (2, 9)),
        (b'{"usage":{"completion_tokens":2,"prompt_tokens":7}}', (2, 9)),
        (b'{"usage":{"completion_tokens":2.5,"prompt_tokens":7}}', (2, 9)),
        (
            b'{"usage":{"prompt_tokens":1},"again":{"usage":{"prompt_tokens":7,"completion_tokens":2}}}',
            (2, 9),
        ),
        (b'{"eval":{"completion_tokens":4,"prompt_tokens":6}}', (4, 10)),
        (b'{"usage":{"completion_tokens":4},"text":"%b","more_tokens":1}' % (b"x" * 3000), (4, 4)),
        (b'{"usage":{"prompt_tokens":6,"total_tokens":6}}', (0, 6)),
        (b'{"max_tokens":6}', (0, 0)),
    ],
)
def test_tokens_wherever_they_stand(body: bytes, usage: tuple[int, int]) -> None:
    assert openai.usage_of(body) == usage
