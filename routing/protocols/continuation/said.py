"""What was said: text, tokens and envelope of an answer's stream so far, read from its events (SSE).

Nothing is read while a stream passes. This is for the moment when it has broken off.

Tokens are counted: servers send one event for each, with two exceptions that are kept apart. While a server
holds text back that may be the beginning of a stop string, its first events are empty, and as many tokens at
the end are not sent: empty events before the first text do not count where there are stop strings. And what
is empty between two texts belongs to a character of several tokens. A stream that reports its usage with each
event is taken by its word.
"""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.continuation.refusal import NotContinuable

_EVENT_END = re.compile(rb"\r?\n\r?\n")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
DONE = b"[DONE]"


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[object] | None = None
    function_call: object = None
    refusal: str | None = None
    audio: object = None


class _StreamChoice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: object = None


class _StreamUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    id: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[_StreamChoice] | None = None
    usage: _StreamUsage | None = None
    error: object = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Said:
    """Of one answer, as its client has it."""

    __slots__ = (
        "_ends",
        "_leading",
        "_length",
        "_pieces",
        "completion_tokens",
        "created",
        "done",
        "finish_reason",
        "id",
        "is_chat",
        "model",
        "prompt_tokens",
        "role_sent",
        "text",
        "usage_sent",
    )

    def __init__(self) -> None:
        self.id: str | None = None
        self.created: int | None = None
        self.model: str | None = None
        """The envelope that all events of the answer share, by its first."""
        self.text = ""
        self.is_chat = False
        """Whether its events have deltas."""
        self.role_sent = False
        self.finish_reason: str | None = None
        self.usage_sent = False
        """Whether the last event of a stream that reports its usage has come, which has no choices."""
        self.done = False
        self.prompt_tokens = self.completion_tokens = 0
        """As the stream says; 0: it does not."""
        self._ends: list[int] = []
        """Characters of the text up to the end of each event of the answer."""
        self._leading = 0
        """Events before the first text."""
        self._pieces: list[str] = []
        self._length = 0

    @property
    def has_begun(self) -> bool:
        """Whether anything but a role has passed."""
        return bool(self._ends)

    def tokens(self, characters: int, held_back: bool) -> int:
        """Tokens of the first so many characters. ``held_back``: the server does not send what may be the
        beginning of a stop string."""
        if not characters:
            return 0
        before_last = bisect_right(self._ends, characters)
        # Empty events after the last text are of what is not sent yet.
        while before_last > 1 and self._ends[before_last - 1] == self._ends[before_last - 2]:
            before_last -= 1
        return max(1, before_last - (self._leading if held_back else 0))

    def take(self, data: bytes) -> None:
        """One event's data. Raises :class:`NotContinuable`."""
        if data.strip() == DONE:
            self.done = True
            return
        try:
            chunk = _decode(data)
        except DECODE_ERRORS:
            raise NotContinuable("malformed") from None
        if chunk.error is not None:
            raise NotContinuable("error_event")
        if self.id is None:
            self.id, self.created, self.model = chunk.id, chunk.created, chunk.model
        if chunk.usage is not None:
            self.prompt_tokens = chunk.usage.prompt_tokens
            self.completion_tokens = chunk.usage.completion_tokens
            self.usage_sent = not chunk.choices
        for choice in chunk.choices or ():
            self._take_choice(choice)

    def join(self) -> None:
        """All events were taken."""
        self.text = "".join(self._pieces)

    def _take_choice(self, choice: _StreamChoice) -> None:
        if choice.index:
            raise NotContinuable("choices")
        if choice.logprobs is not None:
            raise NotContinuable("log_probabilities")
        piece = choice.text
        delta = choice.delta
        if delta is not None:
            self.is_chat = True
            if delta.reasoning_content or delta.reasoning:
                raise NotContinuable("reasoning")
            if delta.tool_calls or delta.function_call is not None:
                raise NotContinuable("tools")
            if delta.refusal or delta.audio is not None:
                raise NotContinuable("malformed")
            piece = delta.content
            if delta.role is not None:
                self.role_sent = True
                if not piece and choice.finish_reason is None:
                    piece = None
        if piece is not None and (piece or choice.finish_reason is None):
            self._pieces.append(piece)
            self._length += len(piece)
            self._ends.append(self._length)
            self._leading += not self._length
        if choice.finish_reason is not None:
            self.finish_reason = choice.finish_reason


def said_in(stream: bytes) -> Said:
    """What this event stream says, which must end with an event. Raises :class:`NotContinuable`."""
    said = Said()
    events = _EVENT_END.split(stream)
    if events[-1].strip(b"\r\n"):
        raise NotContinuable("partial_event")
    for event in events[:-1]:
        data = data_of(event)
        if data is not None:
            said.take(data)
    said.join()
    if said.text.endswith(_REPLACEMENT):
        raise NotContinuable("split_character")
    return said


def data_of(event: bytes) -> bytes | None:
    """The data of an event's lines; ``None``: it has none, as a comment."""
    if event.startswith(b"data:") and b"\n" not in event:
        return event[5:].lstrip(b" ")
    lines = [line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def whole_events(text: bytes) -> int:
    """Where the last whole event in this text ends; 0: there is none."""
    end = text.rfind(b"\n\n") + 2
    if end < 2:
        end = 0
    other = text.rfind(b"\n\r\n") + 3
    return max(end, other) if other > 2 else end
