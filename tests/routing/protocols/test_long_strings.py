"""Bodies with long strings: the same object otherwise."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.protocols import named_models, openai
from routing.protocols.long_strings import INSTEAD, LEAST_BODY, LONG, MOST_QUOTES, without_long_strings

LARGE = "x" * LEAST_BODY


def shortened(value: Any) -> Any:
    if isinstance(value, str):
        return INSTEAD.decode() if len(json.dumps(value)) - 1 > LONG else value
    if isinstance(value, list):
        return [shortened(one) for one in value]
    if isinstance(value, dict):
        return {shortened(name): shortened(one) for name, one in value.items()}
    return value


texts = st.sampled_from(
    ["", "a", '"', "\\", '\\"', '"}', "é", LARGE, '\\"' * LONG, LARGE + "\\", "\\" * LONG]
)
values = st.recursive(
    texts | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=4), st.booleans())
def test_what_is_left_is_the_same(members: dict[str, Any], spaced: bool) -> None:
    members["last"] = LARGE
    body = json.dumps(members, separators=None if spaced else (",", ":")).encode()
    left = json.loads(without_long_strings(body))
    # A string with very many quotation marks in it, and what follows that, may be whole.
    assert left in (members, shortened(members)) or shortened(left) == shortened(members)


def test_a_long_one_goes() -> None:
    body = json.dumps({"model": "m", "messages": [{"content": LARGE}], "stream": True}).encode()
    assert len(without_long_strings(body)) < 200
    assert openai.read(b"/v1/chat/completions", body)[:2] == ("m", True)
    assert openai.read(b"/v1/chat/completions", bytearray(body))[:2] == ("m", True)
    fields = b"\r\nContent-Type: application/json"
    assert named_models.in_body(fields, body, any_content=False) == (["m"], [])


def test_many_quotation_marks_are_not_looked_at() -> None:
    body = json.dumps({"a": ["b"] * MOST_QUOTES, "c": LARGE, "model": "m"}).encode()
    assert without_long_strings(body) == body
    assert openai.read(b"/v1/chat/completions", body)[0] == "m"


@pytest.mark.parametrize(
    "body", [f'{{"a":"{LARGE}', f'{{"a":"{LARGE}\\"', f'{{"a":"{LARGE}"', f'"{LARGE}"x', f'{{{LARGE}"a":1}}']
)
def test_what_is_no_object_stays_none(body: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(without_long_strings(body.encode()))


def test_a_model_with_a_long_name_is_none_of_ours() -> None:
    body = json.dumps({"model": LARGE}).encode()
    assert openai.read(b"/v1/chat/completions", body)[0] == INSTEAD.decode()
