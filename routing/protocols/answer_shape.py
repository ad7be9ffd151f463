"""Answer shape: whether the body of a 200 is an answer of its protocol, an empty one, or none at all.

Theory. A server that is broken may answer at once with 200 and a body that answers nothing: a page of its
load balancer, ``{}``, an error in JSON, a stream that ends before it has begun. Such a body lacks the one
member in which the protocol puts its result. So each call that is judged has a *mark*, that member's name as
it stands in JSON. :func:`shape_of` reads a whole body, and finds that member, its type, and whether there is
content in it. Of a body in pieces the beginning is read.

Judged are the calls of which the form of the answer is known: chat, completions, embeddings and responses of
the OpenAI API, messages of Anthropic's, ``infer`` of the Open Inference Protocol. All others are not.

Source: the API references of OpenAI (chat, completions, embeddings, responses) and Anthropic (messages), and
the Open Inference Protocol, "Inference Response JSON Object".

Failure mode: text that is nonsense is a whole answer.
"""

import enum
import re
from collections.abc import Callable, Sequence

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.path_forms import path_of


class Shape(enum.Enum):
    """What a body is."""

    NONE = "none"
    """No answer of its protocol: no JSON object, or without the member that holds the result."""
    EMPTY = "empty"
    """A well-formed answer without content: no text, no tool call, no number. One of these is legal."""
    WHOLE = "whole"
    """It has content."""


UNJUDGED = b""
"""The mark of a call whose answers are not judged."""
CHOICES, _DATA, OUTPUT, CONTENT, _OUTPUTS = (
    *(b'"choices"', b'"data"', b'"output"', b'"content"'),
    b'"outputs"',
)
"""The marks. ``CHOICES``: chat and completions, ``OUTPUT``: responses, ``CONTENT``: Anthropic's messages."""
_MARKS = {
    b"/chat/completions": CHOICES,
    b"/completions": CHOICES,
    b"/embeddings": _DATA,
    b"/responses": OUTPUT,
    b"/messages": CONTENT,
}
_BELOW_V1 = re.compile(rb"(?:/openai)?(?:/v1|/openai/deployments/[^/]++)?(/chat/completions|/[a-z]++)\Z")
_INFER = re.compile(rb"/v2/models/[^/]++(?:/versions/[^/]++)?/infer\Z")
_PROTOCOLS = {_OUTPUTS: "open-inference"}
"""Of the fleets in which a call with this mark is what it seems; of the others it is ``openai``."""
_ENCODED = re.compile(rb"\r\ncontent-encoding:[ \t]*+(?!identity[ \t]*+(?:\r|\Z))", re.IGNORECASE)
_EVENTS = re.compile(rb"\r\ncontent-type:[ \t]*+text/event-stream", re.IGNORECASE)
_JSON = re.compile(rb"\r\ncontent-type:[ \t]*+application/json", re.IGNORECASE)
_JSON_LENGTH = re.compile(rb"\r\ninference-header-content-length:[ \t]*+([0-9]{1,18})[ \t]*+(?=\r|\Z)", re.I)
_BLANKS = b" \t\r\n"
_NO_CONTENT = frozenset({b"null", b'""', b"[]", b"{}"})
_EVENT_CONTENT = re.compile(
    rb'"(?:content|text|delta|reasoning|reasoning_content|refusal|thinking|arguments|partial_json|name)"'
    rb'[ \t]*+:[ \t]*+"[^"]'
)
_LARGE = 1 << 20
"""A body of more bytes is not read as a whole: it has content."""
_KEPT = 8192
"""Bytes of the beginning of a body in pieces that are searched."""


def mark_of(method: bytes, target: bytes) -> bytes:
    """The mark of this call's answers; :data:`UNJUDGED`: they are not judged. ``target``: as the replica gets
    it."""
    if method != b"POST":
        return UNJUDGED
    path = path_of(target)
    if path.startswith(b"/v2/"):
        return UNJUDGED if _INFER.match(path) is None else _OUTPUTS
    found = _BELOW_V1.match(path)
    return UNJUDGED if found is None else _MARKS.get(found[1], UNJUDGED)


def belongs_to(mark: bytes, protocol: str) -> bool:
    """Whether a call with this mark is what it seems, in a fleet of this protocol."""
    return mark != UNJUDGED and protocol == _PROTOCOLS.get(mark, "openai")


def is_json(head: bytes) -> bool:
    """Whether the response with this head says that it is JSON."""
    return _JSON.search(head) is not None


def is_encoded(head: bytes) -> bool:
    """Whether the body of the response with this head is encoded."""
    return _ENCODED.search(head) is not None


def is_judged(mark: bytes, protocol: str, status: int, head: bytes) -> bool:
    """Whether a response to a call with this mark is judged. ``protocol``: of the fleet. ``head``: status
    line and fields of the response, each field preceded by CRLF."""
    return status == 200 and belongs_to(mark, protocol) and not is_encoded(head)


def is_event_stream(head: bytes) -> bool:
    """Whether the response with this head is a stream of server-sent events."""
    return _EVENTS.search(head) is not None


class _Choice(msgspec.Struct):
    message: dict[str, msgspec.Raw] | None = None
    text: msgspec.Raw = msgspec.Raw()


class _Choices(msgspec.Struct):
    choices: list[_Choice]


class _Embedding(msgspec.Struct):
    embedding: msgspec.Raw = msgspec.Raw()


class _Data(msgspec.Struct):
    data: list[_Embedding]


class _OutputItems(msgspec.Struct):
    output: list[dict[str, msgspec.Raw]]


class _ContentBlocks(msgspec.Struct):
    content: list[dict[str, msgspec.Raw]]


class _OutputTensor(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"elsewhere")


class _Outputs(msgspec.Struct):
    outputs: list[_OutputTensor]


def _of_choices(answer: _Choices) -> Shape:
    has_content = any(
        _is_content(choice.text)
        or any(_is_content(said) for name, said in (choice.message or {}).items() if name != "role")
        for choice in answer.choices
    )
    return _shape(answer.choices, has_content)


def _of_data(answer: _Data) -> Shape:
    return _shape(answer.data, any(_is_content(one.embedding) for one in answer.data))


def _of_outputs(answer: _Outputs) -> Shape:
    return _shape(answer.outputs, any(_is_content(tensor.data) for tensor in answer.outputs))


def _of_output(answer: _OutputItems) -> Shape:
    # Of a response that goes on in the background there is nothing yet.
    return Shape.WHOLE if answer.output else Shape.EMPTY


def _of_content(answer: _ContentBlocks) -> Shape:
    has_content = any(
        _is_content(said) for block in answer.content for name, said in block.items() if name != "type"
    )
    return Shape.WHOLE if has_content else Shape.EMPTY


def _shape(results: Sequence[object], has_content: bool) -> Shape:
    """Of an answer that has at least one result."""
    if not results:
        return Shape.NONE
    return Shape.WHOLE if has_content else Shape.EMPTY


def _is_content(said: msgspec.Raw) -> bool:
    text = bytes(said)
    return bool(text) and text not in _NO_CONTENT


_AnswerReader = tuple[Callable[[bytes | memoryview], object], Callable[..., Shape]]
_READS: dict[bytes, _AnswerReader] = {
    CHOICES: (msgspec.json.Decoder(_Choices).decode, _of_choices),
    _DATA: (msgspec.json.Decoder(_Data).decode, _of_data),
    OUTPUT: (msgspec.json.Decoder(_OutputItems).decode, _of_output),
    CONTENT: (msgspec.json.Decoder(_ContentBlocks).decode, _of_content),
    _OUTPUTS: (msgspec.json.Decoder(_Outputs).decode, _of_outputs),
}


def shape_of(mark: bytes, head: bytes, body: bytes) -> Shape:
    """What a whole body is, of a response that :func:`is_judged`."""
    if is_event_stream(head):
        events = EventStream(mark)
        events.feed(body)
        return events.shape()
    if len(body) > _LARGE and body.find(mark) >= 0:
        return Shape.WHOLE
    decode, shape = _READS[mark]
    said = _JSON_LENGTH.search(head) if mark is _OUTPUTS else None
    try:
        return shape(decode(body if said is None else memoryview(body)[: int(said[1])]))
    except msgspec.ValidationError:
        return Shape.NONE
    except DECODE_ERRORS:
        # Python's json writes NaN, which is no JSON, and which Python's clients read.
        return Shape.WHOLE if body.find(mark) >= 0 and _is_object(body) else Shape.NONE


def _is_object(body: bytes) -> bool:
    """Whether it looks like a JSON object from its first byte to its last."""
    return body.lstrip(_BLANKS)[:1] == b"{" and body.rstrip(_BLANKS)[-1:] == b"}"


class BodyInPieces:
    """The shape of a body that comes in pieces: of its beginning, if it is long."""

    __slots__ = ("_beginning", "_head", "_mark", "_size", "reads_on")

    def __init__(self, mark: bytes, head: bytes) -> None:
        self.reads_on = True
        """Whether it is still to be fed."""
        self._mark = mark
        self._head = head
        self._beginning = b""
        self._size = 0

    def feed(self, piece: bytes) -> None:
        """The next bytes, in order."""
        room = _KEPT - self._size
        if room > 0:
            self._beginning += piece[:room]
        self._size += len(piece)

    def shape(self) -> Shape:
        """Of all of it."""
        if self._size <= _KEPT:
            return shape_of(self._mark, self._head, self._beginning)
        # What is so long is no error page in JSON; the result may stand behind other members.
        return Shape.WHOLE if self._beginning.lstrip(_BLANKS)[:1] == b"{" else Shape.NONE


class EventStream:
    """The shape of a stream of server-sent events, from its beginning. It may be fed still in chunks."""

    __slots__ = ("_beginning", "_found", "_mark", "reads_on")

    def __init__(self, mark: bytes) -> None:
        self.reads_on = True
        """Whether it is still to be fed: nothing is known yet."""
        self._mark = mark
        self._beginning = b""
        self._found = False

    def feed(self, piece: bytes) -> None:
        """The next bytes, in order."""
        if not self.reads_on:
            return
        self._beginning += piece[:_KEPT]
        self._found = _EVENT_CONTENT.search(self._beginning) is not None
        self.reads_on = not self._found and len(self._beginning) < _KEPT

    def shape(self) -> Shape:
        """Of all of it."""
        if self._found:
            return Shape.WHOLE
        # Of responses and messages each event has members of its own.
        mark = self._mark if self._mark is CHOICES else b"data:"
        return Shape.EMPTY if self._beginning.find(mark) >= 0 else Shape.NONE
