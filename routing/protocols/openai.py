"""The OpenAI API: ``POST /v1/…`` with a JSON body that holds ``model``.

Work is counted in tokens: the prompt's, at four bytes each, plus those the client lets the model
generate. Without ``max_tokens`` nobody knows: then it is the prompt's with the sign turned, to which the
fleet adds the length of its usual answer. What was not generated (embeddings, scores) is the body's tokens.
"""

import re
from typing import Final

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.long_strings import LEAST_BODY, without_long_strings
from routing.protocols.openai_messages import ModelObject, ModelOnly, OpenAiRequest
from routing.protocols.request_info import BadRequestBody, RequestInfo

BYTES_PER_TOKEN: Final = 4.0
MOST_TOKENS: Final = 1_000_000_000
"""More than that is no limit that anybody means."""

_GENERATES: Final = (b"/completions", b"/responses", b"/messages")
_LONGEST_COUNT: Final = 48
"""Bytes of ``"completion_tokens": 123456789``, and some blanks."""
_COMPLETION_TOKENS: Final = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*+:\s*+([0-9]{1,9})')
_PROMPT_TOKENS: Final = re.compile(rb'"(?:prompt_tokens|input_tokens)"\s*+:\s*+([0-9]{1,9})')
_USUAL_USAGE: Final = re.compile(
    rb'"usage":\{"(?:prompt_tokens":([0-9]{1,9}),"(?:total_tokens":[0-9]{1,9},")?completion_tokens":([0-9]{1,9})'
    rb'|completion_tokens":([0-9]{1,9}),"prompt_tokens":([0-9]{1,9}))[,}]'
)
"""As vLLM, OpenAI and llama.cpp begin it."""
_COUNTS: Final = re.compile(rb'"(prompt|input|completion|output|total)_tokens"\s*+:\s*+([0-9]{1,9})')
_LONGEST_USAGE: Final = 1024
"""Bytes from a usage's first count to its last."""


_decode: Final = msgspec.json.Decoder(OpenAiRequest).decode
_decode_model: Final = msgspec.json.Decoder(ModelOnly).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read(target: bytes, body: bytes) -> RequestInfo:
    """Raises :class:`BadRequestBody` when the body is not a JSON object or ``model`` is not a string."""
    text = body if len(body) < LEAST_BODY else without_long_strings(body)
    try:
        said = _decode(text)
    except DECODE_ERRORS:
        return (_model_alone(text), False, 0.0)
    limit = said.max_completion_tokens or said.max_tokens or said.max_output_tokens
    work = len(body) / BYTES_PER_TOKEN
    tokens = limit * (said.n or 1) if limit is not None and limit > 0 else 0
    if 0 < tokens <= MOST_TOKENS:
        work += tokens
    elif target.partition(b"?")[0].endswith(_GENERATES):
        work = -work
    return (said.model, said.stream is True, work)


def _model_alone(body: bytes) -> str:
    try:
        return _decode_model(body).model
    except msgspec.ValidationError:
        raise BadRequestBody("the body must be a JSON object whose member model is a string") from None
    except DECODE_ERRORS as error:
        raise BadRequestBody(f"the body is not valid JSON: {error}") from None


def with_model(body: bytes, model: str) -> bytes:
    """The same body with another ``model``; the rest stays as it came. Raises :class:`BadRequestBody`."""
    try:
        members = _decode_members(body)
    except DECODE_ERRORS as error:
        raise BadRequestBody(f"the body is not valid JSON: {error}") from None
    members["model"] = msgspec.Raw(msgspec.json.encode(model))
    return msgspec.json.encode(members)


def model_list(names: list[str]) -> bytes:
    """Answer to ``GET /v1/models``."""
    return msgspec.json.encode({"object": "list", "data": [ModelObject(name) for name in names]})


def model_object(name: str) -> bytes:
    """Answer to ``GET /v1/models/{model}``."""
    return msgspec.json.encode(ModelObject(name))


def error_body(status: int, code: str, message: str, kind: str = "") -> bytes:
    """``kind``: as OpenAI's API calls it, where it has a word of its own."""
    kind = kind or ("invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "code": code, "param": None}})


def completion_tokens(body: bytes) -> int:
    """Output tokens that a whole answer, or the end of one, says it has; 0 when it does not say."""
    said = _COMPLETION_TOKENS.findall(body)
    return int(said[-1]) if said else 0


def usage_of(body: bytes) -> tuple[int, int] | None:
    """Output tokens, and prompt and output together, that a whole answer, or the end of one, says it has; 0
    where it does not say. ``None``: it names no tokens at all."""
    begin = body.rfind(b'"usage":{')
    if begin >= 0 and (usual := _USUAL_USAGE.match(body, begin)) is not None:
        before, after, first, second = usual.groups()
        tokens, prompt = (int(after), before) if first is None else (int(first), second)
        return tokens, tokens + int(prompt)
    # Names in JSON: in a string there is a backslash before the quotation mark.
    last = body.rfind(b'_tokens"')
    if last < 0:
        return None
    said = dict(_COUNTS.findall(body, max(0, last - _LONGEST_USAGE), last + _LONGEST_COUNT))
    output = said.get(b"completion") or said.get(b"output")
    # What follows the usage may have a name like these, too.
    tokens = int(output) if output is not None else completion_tokens(body)
    prompt = said.get(b"prompt") or said.get(b"input")
    if prompt or tokens:
        return tokens, tokens + int(prompt or 0)
    return 0, int(said.get(b"total", 0))


def events_of(stream: bytes) -> int:
    """Output tokens of a whole event stream that does not say how many it has: one for each event."""
    counter = StreamTokenCounter()
    counter.feed(stream)
    return counter.total()


class StreamTokenCounter:
    """Counts output tokens of a server-sent event stream: one ``data:`` line is about one token.

    The usage in the last event that has any is right, in the OpenAI API as in Anthropic's, whose
    ``message_delta`` counts what ``message_start`` began.
    """

    __slots__ = ("_closing", "_counted", "_cut", "_last", "_prompt", "_said", "_tail", "_whole")

    def __init__(self, closing: int = 1) -> None:
        """``closing``: how many lines at the end are no tokens (``[DONE]``)."""
        self._closing = closing
        self._tail = b"\n"
        self._last = b""
        """At least the last bytes that a count may begin in."""
        self._cut = False
        """Whether a count may go on in the next piece."""
        self._counted = 0
        self._said = 0
        self._prompt = 0
        self._whole = True
        """Whether the last piece ended with an event, so that nothing goes on in the next one."""

    def feed(self, piece: bytes) -> int:
        """Tokens in this piece. A line split between two pieces is counted once."""
        # What is kept of the last piece is too short for a whole "\ndata:": nothing is counted twice.
        text = self._tail + piece
        self._tail = text[-5:]
        if self._cut or b"tokens" in text:
            self._read_usage(piece)
        self._last = piece if len(piece) >= _LONGEST_COUNT else (self._last + piece)[-_LONGEST_COUNT:]
        count = text.count(b"\ndata:")
        self._counted += count
        self._whole = text.endswith(b"\n\n")
        return count

    def feed_framed(self, pieces: list[bytes], chunks: bytes) -> int | None:
        """As :meth:`feed`, of the data of whole chunks: that of each stands between its size's line and a
        CRLF. ``pieces``: of one or more of them, ``chunks``: all together. ``None``: nothing was counted, for
        the framing has to go first."""
        # One byte is replaced in a quarter of the time in which two are counted.
        carriage_returns = len(chunks) - len(chunks.replace(b"\r", b""))
        # With the quotation mark, because that is found wanting in half the time.
        if not self._whole or b'_tokens"' in chunks:
            return None
        if carriage_returns == 2 * len(pieces):
            # One chunk in each: only its end is to be looked at.
            for piece in pieces:
                if not piece.endswith(b"\n\n\r\n"):
                    return None
        elif carriage_returns != 2 * chunks.count(b"\n\n\r\n"):
            return None
        # Each begins and ends with events, so what was kept of the last piece serves the next one as well.
        count = chunks.count(b"\ndata:")
        self._counted += count
        return count

    def _read_usage(self, piece: bytes) -> None:
        begin = piece.rfind(b'"usage":{')
        if begin >= 0 and (usual := _USUAL_USAGE.match(piece, begin)) is not None:
            before, after, first, second = usual.groups()
            prompt, tokens = (before, after) if first is None else (second, first)
            self._said = int(tokens) or self._said
            self._prompt = int(prompt)
            self._cut = b"tokens" in piece[-_LONGEST_COUNT:]
            return
        text = self._last[-_LONGEST_COUNT:] + piece
        self._said = completion_tokens(text) or self._said
        said = _PROMPT_TOKENS.findall(text)
        if said:
            self._prompt = int(said[-1])
        self._cut = b"tokens" in text[-_LONGEST_COUNT:]

    def total(self) -> int:
        """What the stream itself said, else what was counted."""
        return self._said or max(0, self._counted - self._closing)

    def prompt(self) -> int:
        """Of the prompt, as the stream itself said; 0: it did not."""
        return self._prompt


class TailTokenCounter:
    """Finds the token count at the end of an answer that is not an event stream."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, piece: bytes) -> int:
        self._tail = (self._tail + piece)[-2048:]
        return 0

    def feed_framed(self, pieces: list[bytes], chunks: bytes) -> None:
        return None

    def total(self) -> int:
        return completion_tokens(self._tail)

    def prompt(self) -> int:
        usage = usage_of(self._tail)
        return 0 if usage is None else usage[1] - usage[0]
