"""Which answers are continued, and what the other replica is asked."""

import json
from typing import Any

import pytest

from routing.protocols.continuation.next_request import CHAT, COMPLETION, call_of, next_request
from routing.protocols.continuation.refusal import NotContinuable
from routing.protocols.continuation.said import said_in
from tests.routing.protocols.continuation.streams import event, request_body


def delta(**fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": None}
    return event({"id": "x", "created": 1, "model": "m", "choices": [choice]})


def text(piece: str) -> bytes:
    return event({"id": "x", "created": 1, "model": "m", "choices": [{"index": 0, "text": piece}]})


def cause(call: bytes, body: bytes, sent: bytes, kind: Any = "vllm") -> str:
    with pytest.raises(NotContinuable) as refused:
        next_request(call, body, said_in(sent), kind)
    return refused.value.cause


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"n": 2}, "choices"),
        ({"best_of": 3}, "choices"),
        ({"logprobs": True}, "log_probabilities"),
        ({"logprobs": 0}, "log_probabilities"),
        ({"n_probs": 5}, "log_probabilities"),
        ({"response_format": {"type": "json_object"}}, "guided"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "guided"),
        ({"guided_regex": "a+"}, "guided"),
        ({"structured_outputs": {"choice": ["a"]}}, "guided"),
        ({"grammar": "root ::= x"}, "guided"),
        ({"tool_choice": "required"}, "tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tools"),
        ({"modalities": ["text", "audio"]}, "input"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "input"),
    ],
)
def test_a_chat_that_is_not_continued(fields: dict[str, Any], why: str) -> None:
    assert cause(CHAT, request_body(True, **fields), delta(content="one")) == why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"prompt": [1, 2, 3]}, "input"),
        ({"prompt": ["a", "b"]}, "input"),
        ({"echo": True}, "input"),
        ({"suffix": "end"}, "input"),
        ({"logprobs": 1}, "log_probabilities"),
    ],
)
def test_a_completion_that_is_not_continued(fields: dict[str, Any], why: str) -> None:
    assert cause(COMPLETION, request_body(False, **fields), text("one")) == why


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (delta(reasoning_content="hm"), "reasoning"),
        (delta(reasoning="hm"), "reasoning"),
        (delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]), "tools"),
        (delta(content="half a \ufffd"), "split_character"),
        (event({"choices": [{"index": 1, "delta": {"content": "b"}}]}), "choices"),
        (event({"error": {"message": "no"}}), "error_event"),
        (b"data: {nonsense}\n\n", "malformed"),
        (delta(content="one") + b'data: {"id"', "partial_event"),
    ],
)
def test_what_was_said_may_speak_against_it(sent: bytes, why: str) -> None:
    assert cause(CHAT, request_body(True), sent) == why


def test_tools_that_were_not_called_and_plain_text_are_no_hindrance() -> None:
    body = request_body(True, tools=[{"type": "function"}], response_format={"type": "text"}, n=1)
    sent = b": hello\r\n\r\n" + delta(role="assistant", content="", reasoning=None) + delta(content="one")
    asked = json.loads(next_request(CHAT, body, said_in(sent), "vllm").body)
    assert asked["messages"][1:] == [{"role": "assistant", "content": "one"}]
    assert asked["seed"] == 3
    assert asked["tools"] == [{"type": "function"}]


def test_limits_are_lowered_by_what_was_said() -> None:
    body = request_body(True, max_tokens=9, max_completion_tokens=8, min_tokens=5)
    sent = delta(role="assistant") + delta(content="one") + delta(content="two")
    asked = json.loads(next_request(CHAT, body, said_in(sent), "sglang").body)
    assert (asked["max_tokens"], asked["max_completion_tokens"], asked["min_tokens"]) == (7, 6, 3)
    assert asked["continue_final_message"] is True


def test_white_space_at_the_end_is_left_out_for_a_server_that_may_trim_it() -> None:
    """Its tokens are not counted as said, for they come again."""
    body, sent = request_body(True, max_tokens=9), delta(content="one") + delta(content="\n\n")
    trimmed = next_request(CHAT, body, said_in(sent), "vllm")
    assert json.loads(trimmed.body)["messages"][1]["content"] == "one"
    assert json.loads(trimmed.body)["max_tokens"] == 8
    assert trimmed.expected == "\n\n"
    kept = next_request(CHAT, body, said_in(sent), "llama.cpp")
    assert json.loads(kept.body)["messages"][1]["content"] == "one\n\n"
    assert kept.expected == ""


def test_a_prefill_of_the_client_s_own_is_made_longer() -> None:
    messages = [{"role": "user", "content": "Once"}, {"role": "assistant", "content": "I "}]
    sent = said_in(delta(content="am"))
    body = request_body(True, messages=messages, continue_final_message=True, add_generation_prompt=False)
    asked = json.loads(next_request(CHAT, body, sent, "vllm").body)
    assert asked["messages"][1] == {"role": "assistant", "content": "I am"}
    assert len(asked["messages"]) == 2
    assert cause(CHAT, request_body(True, messages=messages), delta(content="am"), "llama.cpp") == "input"


def test_tokens_of_characters_and_of_held_text() -> None:
    """What is empty between texts is of a character; what is empty before them was held back."""
    sent = said_in(text("a") + text("") + text("\N{PILE OF POO}") + text("b") + text(""))
    assert [sent.tokens(count, False) for count in range(4)] == [0, 1, 3, 4]
    held = said_in(text("") + text("") + text("a") + text("b"))
    assert held.tokens(2, True) == 2
    assert held.tokens(2, False) == 4


def test_calls_by_their_path() -> None:
    assert call_of(b"/fleets/f/v1/chat/completions?x=1") == CHAT
    assert call_of(b"/v1/completions") == COMPLETION
    assert call_of(b"/v1/embeddings") == call_of(b"/v1/messages") == b""
