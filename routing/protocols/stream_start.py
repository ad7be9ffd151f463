"""Stream start: whether an event stream has begun to answer, or has only said that it will.

Theory. Servers send a stream's first events before there is a token: the role of who will speak, an empty
text, an empty message. Such a stream can be lost, and another replica asked instead, as if it had sent
nothing. So its events are read until one has content:

- OpenAI chat and completions: anything but a role or an empty text in a choice, or a reason for its end. An
  event without choices (of Azure: what is said of the prompt) has none.
- OpenAI responses: anything but ``response.created``, ``.queued``, ``.in_progress`` and the beginning of an
  item or of a part.
- Anthropic messages: anything but ``message_start``, ``content_block_start`` and ``ping``.

What has no known form counts as content: it passes. Comments (a line with a colon first) never do. Servers
and the proxies before them send them, or events named ``ping`` or ``keepalive``, so that a connection is not
taken to be idle: they are no sign that there is progress (:func:`is_idle`).

An event whose data is no JSON is malformed. An error event that says that the server has failed, or is
overloaded, is a failure, as the status would be that the server had sent already: vLLM, for one, sends the
head before it knows. Any other error, of the request or of a filter, is content.

Source: the API references of OpenAI and Anthropic (streaming); the event stream format of the HTML standard,
§9.2.
"""

import enum
import re

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols import answer_shape
from routing.protocols.continuation.said import DONE, data_of
from routing.protocols.stream_messages import ErrorEvent, StartingChoice, StartingChunk, TypedEvent


class Start(enum.Enum):
    """What the beginning of a stream holds."""

    NOTHING = "nothing"
    """No content yet."""
    CONTENT = "content"
    MALFORMED = "malformed"
    """No content, and an event that is none of any protocol."""
    FAILED = "failed"
    """No content, and an error event: the server has failed."""


_MOST_BYTES = 65_536
"""Of one event. What is longer counts as content."""
_EMPTY = frozenset({b"", b"null", b'""', b"[]", b"{}"})
_BEGINNINGS = frozenset(
    {
        *("message_start", "content_block_start", "ping"),
        *("response.created", "response.queued", "response.in_progress", "keepalive"),
        *("response.output_item.added", "response.content_part.added"),
    }
)
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_FAILURES = frozenset(
    {
        *(
            "server_error",
            "internal_error",
            "internal_server_error",
            "internalservererror",
            "service_unavailable",
        ),
        *("serviceunavailableerror", "api_error", "overloaded_error", "enginedeaderror", "unavailable_error"),
        *("rate_limit_error", "ratelimiterror"),
    }
)
"""Types or codes of errors, in lower case: OpenAI's, vLLM's, SGLang's, llama.cpp's and Anthropic's."""
_NOT_A_NUMBER = re.compile(rb"NaN|Infinity")
"""As Python writes them, and reads them."""
MAY_BE_IDLE = frozenset({b":", b"e", b"\r", b"\n"})
"""First bytes of what :func:`is_idle`."""
_IDLE = re.compile(
    rb"(?:(?::[^\r\n]*+|event: ?+(?:ping|keepalive)|"
    rb'data: ?+\{ ?+"type" ?+: ?+"(?:ping|keepalive)"[^\r\n]*+)?+(?:\r\n|\n|\r))++\Z'
)


_chunk = msgspec.json.Decoder(StartingChunk).decode
_event = msgspec.json.Decoder(TypedEvent).decode
_error_event = msgspec.json.Decoder(ErrorEvent).decode


class StreamStart:
    """Of one stream. It is fed until it has content."""

    __slots__ = ("_mark", "_partial")

    def __init__(self, mark: bytes) -> None:
        """``mark``: of the call (:mod:`routing.protocols.answer_shape`), one whose stream's end is known."""
        self._mark = mark
        self._partial = b""

    def feed(self, piece: bytes) -> Start:
        """The next bytes, in order. What comes of an event in part is looked at when it is whole."""
        text = self._partial + piece
        events = _EVENT_END.split(text) if b"\r" in text else text.split(b"\n\n")
        self._partial = events.pop()
        for event in events:
            data = data_of(event.strip(b"\r\n"))
            if data is not None and (found := self._of(data)) is not Start.NOTHING:
                return found
        return Start.NOTHING if len(self._partial) <= _MOST_BYTES else Start.CONTENT

    def _of(self, data: bytes) -> Start:
        try:
            if b'"error"' in data and says_failure(data):
                return Start.FAILED
            if self._mark is not answer_shape.CHOICES:
                return Start.NOTHING if _event(data).type in _BEGINNINGS else Start.CONTENT
            chunk = _chunk(data)
        except DECODE_ERRORS:
            return _unread(data)
        if chunk.choices is None or bytes(chunk.error) not in _EMPTY:
            return Start.CONTENT
        for choice in chunk.choices:
            if _says_something(choice):
                return Start.CONTENT
        return Start.NOTHING


def says_failure(data: bytes) -> bool:
    """Whether this data of an event is an error of the server, not of the request."""
    try:
        error = _error_event(data).error
    except DECODE_ERRORS:
        return False
    if isinstance(error.code, int):
        return error.code >= 500 or error.code == 429
    return any(isinstance(word, str) and word.lower() in _FAILURES for word in (error.type, error.code))


def begins_with_failure(mark: bytes, stream: bytes) -> bool:
    """Whether a whole stream has an error of its server, and no content before it."""
    return b'"error"' in stream and StreamStart(mark).feed(stream) is Start.FAILED


def is_idle(piece: bytes) -> bool:
    """Whether these bytes of a stream, not in chunks, are comments and pings alone."""
    return piece[:1] in MAY_BE_IDLE and _IDLE.match(piece) is not None


def _says_something(choice: StartingChoice) -> bool:
    if bytes(choice.finish_reason) not in _EMPTY or bytes(choice.text) not in _EMPTY:
        return True
    if choice.delta:
        for name, said in choice.delta.items():
            if name != "role" and bytes(said) not in _EMPTY:
                return True
    return False


def _unread(data: bytes) -> Start:
    """Of what has another form, or none."""
    if data.strip() == DONE or _NOT_A_NUMBER.search(data):
        return Start.CONTENT
    try:
        return Start.CONTENT if isinstance(msgspec.json.decode(data), dict) else Start.MALFORMED
    except DECODE_ERRORS:
        return Start.MALFORMED
