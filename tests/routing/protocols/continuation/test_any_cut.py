"""Wherever an answer is cut, and however what follows comes: the client reads the uninterrupted answer."""

import json

from hypothesis import given
from hypothesis import strategies as st

from routing.protocols.continuation.next_request import CHAT, COMPLETION, Prefill, next_request
from routing.protocols.continuation.said import said_in, whole_events
from routing.protocols.continuation.splice import COMMENT, Splice, closing_events
from tests.routing.protocols.continuation.streams import Model, Read, request_body

TOKENS = st.lists(
    st.sampled_from([" the", " a", "\n\n", "é", "\u4e2d", " ", "x", '"', "\\n", "data:", "🙂"]),
    min_size=1,
    max_size=14,
)


def continued(model: Model, body: bytes, cut: int, size: int, kind: Prefill) -> tuple[bytes, bool]:
    """What the client gets if the connection breaks after so many bytes, and whether another was asked."""
    first = model.stream(json.loads(body), "chatcmpl-first")
    sent = first[: whole_events(first[:cut])]
    said = said_in(sent)
    request = next_request(CHAT if model.chat else COMPLETION, body, said, kind)
    if not request.body:
        return sent + closing_events(said, request), False
    second = model.stream(json.loads(request.body), "chatcmpl-other-one")
    splice = Splice(said, request)
    sent += splice.begin(model.echoes)
    for at in range(0, len(second), size):
        sent += splice.feed(second[at : at + size])
    assert splice.is_over
    return sent, True


@given(
    tokens=TOKENS,
    shape=st.sampled_from(["vllm", "llama.cpp"]),
    echoes=st.booleans(),
    chat=st.booleans(),
    cut=st.floats(0, 1),
    size=st.integers(1, 700),
    most=st.none() | st.integers(1, 16),
    usage=st.booleans(),
)
def test_the_same_answer(
    tokens: list[str],
    shape: Prefill,
    echoes: bool,
    chat: bool,
    cut: float,
    size: int,
    most: int | None,
    usage: bool,
) -> None:
    model = Model(tokens, shape, chat, echoes=echoes and shape == "llama.cpp")
    fields = {"stream_options": {"include_usage": True}} if usage else {}
    body = request_body(chat, **fields) if most is None else request_body(chat, max_tokens=most, **fields)
    whole = model.stream(json.loads(body), "chatcmpl-first")
    sent, asked = continued(model, body, round(cut * len(whole)), size, shape)
    expected, read = Read(whole), Read(sent)
    assert read.text == expected.text
    assert read.reasons == expected.reasons
    assert read.usages == expected.usages
    assert read.roles == expected.roles == chat
    assert len(read.envelopes) == 1
    assert read.comments == [COMMENT.strip()] * asked
