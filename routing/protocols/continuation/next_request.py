"""Next request: the one that has another replica continue what broke off (assistant prefill).

A completion's prompt is followed by its text. Of a chat, the answer so far is its last message, which the
model is to continue:

- vLLM and SGLang are told so by ``continue_final_message`` (and vLLM by ``add_generation_prompt``, which it
  refuses beside that). vLLM's chat templates may trim the message, so that white space at its end would come
  twice: there it is left out, and cut off what comes (``expected``).
- llama.cpp continues whatever assistant's message comes last (``prefill_assistant``). Its answer begins with
  that message, so an answer to a request that ends with one is not continued.

Sources: vLLM 0.32 (entrypoints/openai/chat_completion/protocol.py) and what it calls in transformers
(utils/chat_template_utils.py); SGLang 0.5 (entrypoints/openai/serving_chat.py); llama.cpp's server README.

Limits of the answer's length are lowered by what was said. Seeds and all else stay as they came. Penalties
that count a model's own words (presence, frequency) no longer count those of the first part.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.continuation.refusal import NotContinuable
from routing.protocols.continuation.said import Said

Prefill = Literal["vllm", "sglang", "llama.cpp", ""]
"""How chats are continued, by the kind of server; empty: not at all."""
CHAT, COMPLETION = b"/v1/chat/completions", b"/v1/completions"

_GUIDES = (
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar"),
    *("json_schema", "ebnf", "regex", "structural_tag"),
)
_LIMITS = ("max_completion_tokens", "max_tokens", "n_predict")
_LOWERED = (*_LIMITS, "min_tokens")


class _Options(msgspec.Struct):
    include_usage: bool | None = None


class _Format(msgspec.Struct):
    type: str = "text"


class _Body(msgspec.Struct):
    """The members that matter here."""

    messages: list[dict[str, msgspec.Raw]] = []
    prompt: str | list[object] | None = None
    n: int | None = None
    best_of: int | None = None
    n_probs: int | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    use_beam_search: bool | None = None
    return_token_ids: bool | None = None
    tool_choice: object = None
    response_format: _Format | None = None
    modalities: list[str] | None = None
    stop: str | list[str] | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n_predict: int | None = None
    min_tokens: int | None = None
    stream_options: _Options | None = None
    continue_final_message: bool | None = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_value = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


class NextRequest(NamedTuple):
    """What is to be sent, and what is to be made of the answer."""

    body: bytes
    """Empty: nothing, for all was said."""
    stops: tuple[str, ...]
    """A stop string may have begun before the seam."""
    expected: str
    """White space that was said already and comes again."""
    tokens: int
    """Of what was said, as far as the request repeats it."""
    all_tokens: int
    """Of all that was said."""
    wants_usage: bool
    closes: str
    """The reason why the answer had ended: nothing of what comes is said, only its usage; empty: it goes
    on."""


def call_of(target: bytes) -> bytes:
    """``CHAT`` or ``COMPLETION`` for a request's target; empty: it is another call."""
    path = target.partition(b"?")[0]
    if path.endswith(CHAT):
        return CHAT
    return COMPLETION if path.endswith(COMPLETION) else b""


def next_request(call: bytes, body: bytes, said: Said, prefill: Prefill) -> NextRequest:
    """The request after this one, of which this was said. Raises :class:`NotContinuable`."""
    asked, members = _read(body)
    _check(asked, members)
    stops = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
    stops = tuple(stop for stop in stops if stop)
    wants_usage = asked.stream_options is not None and asked.stream_options.include_usage is True
    text = said.text
    if call == CHAT and prefill == "vllm":
        text = text.rstrip()
    tokens = said.completion_tokens
    if not tokens or len(text) != len(said.text):
        tokens = said.tokens(len(text), bool(stops))
    all_tokens = max(tokens, said.tokens(len(said.text), bool(stops)))
    limits = [value for name in _LIMITS if (value := getattr(asked, name)) is not None]
    closes = said.finish_reason or ""
    if not closes and limits and 0 < min(limits) <= all_tokens:
        closes = "length"
    if said.done or (closes and (said.usage_sent or not wants_usage)):
        return NextRequest(b"", stops, "", tokens, all_tokens, wants_usage, closes)
    if call == CHAT:
        _continue_chat(members, asked, text, prefill)
    else:
        _continue_completion(members, asked, text)
    for name in _LOWERED:
        value = getattr(asked, name)
        if value is not None and value > 0:
            least = 0 if name == "min_tokens" else 1
            members[name] = msgspec.Raw(b"%d" % (1 if closes and least else max(least, value - tokens)))
    if closes and not limits:
        members["max_tokens"] = msgspec.Raw(b"1")
    expected = said.text[len(text) :]
    return NextRequest(_encode(members), stops, expected, tokens, all_tokens, wants_usage, closes)


def check_request(call: bytes, body: bytes, prefill: Prefill) -> None:
    """Whether answers to this request can be continued at all, whatever was said. Raises
    :class:`NotContinuable`."""
    asked, members = _read(body)
    _check(asked, members)
    if call == CHAT:
        _check_chat(asked)
        if not prefill:
            raise NotContinuable("refused")
    else:
        _prompt_of(asked)


def _read(body: bytes) -> tuple[_Body, dict[str, msgspec.Raw]]:
    try:
        return _decode(body), _decode_members(body)
    except DECODE_ERRORS:
        raise NotContinuable("malformed") from None


def _check(asked: _Body, members: dict[str, msgspec.Raw]) -> None:
    """Raises :class:`NotContinuable`."""
    if (asked.n or 1) > 1 or (asked.best_of or 1) > 1 or asked.use_beam_search:
        raise NotContinuable("choices")
    # 0 is a number of log probabilities: those of the tokens that were chosen.
    numbers = (asked.logprobs, asked.prompt_logprobs)
    if (
        any(value is not None and value is not False for value in numbers)
        or asked.top_logprobs
        or asked.n_probs
    ):
        raise NotContinuable("log_probabilities")
    if asked.echo or asked.suffix or asked.return_token_ids or "prompt_embeds" in members:
        raise NotContinuable("input")
    if asked.modalities not in (None, ["text"]):
        raise NotContinuable("input")
    if asked.response_format is not None and asked.response_format.type != "text":
        raise NotContinuable("guided")
    if any(bytes(members.get(name, b"null")) not in (b"null", b'""') for name in _GUIDES):
        raise NotContinuable("guided")
    if asked.tool_choice not in (None, "none", "auto"):
        raise NotContinuable("tools")


def _prompt_of(asked: _Body) -> str:
    """Raises :class:`NotContinuable`."""
    prompt = asked.prompt
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]  # type: ignore[assignment]
    if not isinstance(prompt, str):
        raise NotContinuable("input")
    return prompt


def _continue_completion(members: dict[str, msgspec.Raw], asked: _Body, text: str) -> None:
    members["prompt"] = msgspec.Raw(_encode(_prompt_of(asked) + text))


def _check_chat(asked: _Body) -> None:
    """Raises :class:`NotContinuable`."""
    if not asked.messages:
        raise NotContinuable("malformed")
    for message in asked.messages:
        _check_message(message)


def _continue_chat(members: dict[str, msgspec.Raw], asked: _Body, text: str, prefill: Prefill) -> None:
    _check_chat(asked)
    if not text:
        return
    if not prefill:
        raise NotContinuable("refused")
    messages = list(asked.messages)
    last = messages[-1]
    ends_with_answer = bytes(last.get("role", b"")) == b'"assistant"'
    if ends_with_answer and prefill == "llama.cpp":
        raise NotContinuable("input")
    if ends_with_answer and asked.continue_final_message is True:
        content = _decode_value(last.get("content", b"null"))
        if not isinstance(content, str):
            raise NotContinuable("input")
        messages[-1] = {**last, "content": msgspec.Raw(_encode(content + text))}
    else:
        if asked.continue_final_message:
            raise NotContinuable("input")
        messages.append({"role": msgspec.Raw(b'"assistant"'), "content": msgspec.Raw(_encode(text))})
    members["messages"] = msgspec.Raw(_encode(messages))
    if prefill != "llama.cpp":
        members["continue_final_message"] = msgspec.Raw(b"true")
        members["add_generation_prompt"] = msgspec.Raw(b"false")


def _check_message(message: dict[str, msgspec.Raw]) -> None:
    """Raises :class:`NotContinuable` where it is not text alone."""
    content = bytes(message.get("content", b"null"))
    if content[:1] != b"[":
        return
    for part in _decode_value(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            raise NotContinuable("input")
