"""Trial: small requests that show whether a server continues what another has begun.

A server that does not know how begins a new turn instead, and the client would read the answer's beginning
twice. It is known by the tokens of its prompt: a message of one letter that is continued adds one; what ends
that message and begins another adds more.

Some servers repeat what they continue, in streams, in other answers only (llama.cpp, 2026), or in both. The
last request asks for a stream, since a stream is what will be continued: its text would be taken for a
repetition where an answer goes round in circles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.continuation.next_request import CHAT, COMPLETION, Prefill
from routing.protocols.continuation.refusal import NotContinuable
from routing.protocols.continuation.said import said_in

Step = tuple[bytes, bytes]
"""Path and body of a request."""

_USER = {"role": "user", "content": "Hi"}
LETTERS = ("Q", "Z")
"""Two, which a model is unlikely to double on its own: a stream that begins with them repeats them."""


class _TrialUsage(msgspec.Struct):
    prompt_tokens: int


class _Answer(msgspec.Struct):
    usage: _TrialUsage


_decode = msgspec.json.Decoder(_Answer).decode


def completion_step(model: str) -> Step:
    """Shows whether completions are served at all: they are continued by their prompt."""
    return COMPLETION, msgspec.json.encode({"model": model, "prompt": "a", "max_tokens": 1})


def chat_steps(model: str, prefill: Prefill) -> list[Step]:
    """A chat, the same with either letter as the beginning of its answer, and as a stream with both."""
    plain: dict[str, object] = {"model": model, "messages": [_USER], "max_tokens": 1}
    steps = [plain]
    for text in (*LETTERS, "".join(LETTERS)):
        begun = plain | {"messages": [_USER, {"role": "assistant", "content": text}]}
        if len(text) > 1:
            begun["stream"] = True
        if prefill != "llama.cpp":
            begun |= {"continue_final_message": True, "add_generation_prompt": False}
        steps.append(begun)
    return [(CHAT, msgspec.json.encode(step)) for step in steps]


class Shown(NamedTuple):
    """What the answers to these show."""

    why_not: str
    """Why chats are not continued; empty: they are."""
    echoes: bool
    """Whether a stream repeats what it continues."""


def shown_by(bodies: Sequence[bytes]) -> Shown:
    """By the answers to :func:`chat_steps`."""
    try:
        answers = [_decode(body) for body in bodies[:-1]]
    except DECODE_ERRORS:
        return Shown("its answers do not say how many tokens their prompts have", False)
    plain, *begun = (answer.usage.prompt_tokens for answer in answers)
    for tokens in begun:
        if tokens - plain != 1:
            words = (
                f"one letter that was to be continued made the prompt {tokens - plain} tokens longer, not 1"
            )
            return Shown(words, False)
    try:
        text = said_in(bodies[-1]).text
    except NotContinuable as problem:
        return Shown(f"a stream that was to be continued cannot be read: {problem}", False)
    return Shown("", text.startswith("".join(LETTERS)))
