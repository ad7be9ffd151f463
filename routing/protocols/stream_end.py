"""Stream end: whether an event stream that has ended well in HTTP is a whole answer, or a truncated one.

Theory. A server that is killed, or that loses its engine, may still end its response as HTTP asks for. Only
the protocol tells that the answer is not whole. Each one has a last event, or a mark of an answer's end in
one of its last events:

- OpenAI chat and completions: ``data: [DONE]``, or ``finish_reason`` in the last event of each choice.
  Servers may leave ``[DONE]`` out, and may send the usage behind the last choice.
- OpenAI responses: ``response.completed``, ``response.incomplete``, ``response.failed``, or ``[DONE]``.
- Anthropic messages: ``message_stop``, or ``[DONE]``.

An error event ends a stream as well: its client has been told. So only the stream's tail is read, when it has
ended. What cannot be seen in the tail, because an event is longer, is held against nobody.

Source: the API references of OpenAI (chat, completions, responses) and Anthropic (streaming messages); the
event stream format of the HTML standard, §9.2.

Failure mode: of several choices (``n``) one that has sent nothing within the tail is not missed.
"""

import enum
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols import answer_shape


class StreamEnd(enum.Enum):
    """How the tail of a stream ends."""

    DONE = "done"
    """With the protocol's last event: nothing can follow."""
    FINISHED = "finished"
    """The answer is whole, though the protocol's last event is missing."""
    ERROR = "error"
    """With an error event."""
    UNKNOWN = "unknown"
    """The last event does not say, or began before the tail."""
    TRUNCATED = "truncated"
    """In the middle of an answer, or before its beginning."""


TAIL_BYTES = {answer_shape.CHOICES: 8192, answer_shape.CONTENT: 8192, answer_shape.OUTPUT: 65_536}
"""By the mark of the call: how much of a stream's tail is to be read. The last event of a response repeats
the response."""

_DONE = re.compile(rb"(?:\A|[\r\n])data:[ \t]*+\[DONE\]")
_LAST_EVENTS = {
    answer_shape.CHOICES: re.compile(_DONE.pattern),
    answer_shape.CONTENT: re.compile(_DONE.pattern + rb'|"type"[ \t]*+:[ \t]*+"message_stop"'),
    answer_shape.OUTPUT: re.compile(
        _DONE.pattern + rb'|"type"[ \t]*+:[ \t]*+"response\.(?:completed|incomplete|failed)"'
    ),
}
_NAMED = {
    answer_shape.CHOICES: (b"[DONE]",),
    answer_shape.CONTENT: (b"[DONE]", b"message_stop"),
    answer_shape.OUTPUT: (b"[DONE]", b"response.completed", b"response.incomplete", b"response.failed"),
}
"""One of these is in each last event. Most pieces have none, and a twentieth of the instructions tell so."""
_ERROR_TYPES = frozenset({"error", "response.error"})
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
_SEQUENCE = re.compile(rb'"sequence_number"[ \t]*+:[ \t]*+([0-9]{1,15})')


def follows(mark: bytes) -> bool:
    """Whether the end of this call's streams is known. ``mark``: the call's, of
    :mod:`routing.protocols.answer_shape`."""
    return mark in TAIL_BYTES


def has_last_event(mark: bytes, piece: bytes) -> bool:
    """Whether the protocol's last event begins in this piece of a stream, which may be in chunks still."""
    for name in _NAMED[mark]:
        if name in piece:
            break
    else:
        return False
    if piece.endswith((b"\ndata: [DONE]\n\n", b"\ndata: [DONE]\n\n\r\n")):
        return True
    # Within a JSON string, a quotation mark and a line's end have a backslash before them.
    return _LAST_EVENTS[mark].search(piece) is not None


def end_of(mark: bytes, tail: bytes, cut: bool) -> StreamEnd:
    """How a stream ends. ``tail``: its last bytes, without chunks. ``cut``: there were others before."""
    if has_last_event(mark, tail):
        return StreamEnd.DONE
    if mark is answer_shape.CHOICES:
        return _end_of_choices(tail, cut)
    for event in _from_the_last(tail, cut):
        if event is None:
            return StreamEnd.UNKNOWN
        if _is_error(event):
            return StreamEnd.ERROR
        break
    return StreamEnd.TRUNCATED


def last_sequence_number(tail: bytes) -> int:
    """That of the last event of a response; -1: none has one."""
    found = _SEQUENCE.findall(tail)
    return int(found[-1]) if found else -1


def _end_of_choices(tail: bytes, cut: bool) -> StreamEnd:
    finished: dict[Any, bool] = {}
    for event in _from_the_last(tail, cut):
        if event is None:
            # What is before the tail may be the end of the only choice.
            return _verdict(finished) if finished else StreamEnd.UNKNOWN
        if not finished and _is_error(event):
            return StreamEnd.ERROR
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                finished.setdefault(choice.get("index"), choice.get("finish_reason") not in (None, ""))
    return _verdict(finished)


def _verdict(finished: dict[Any, bool]) -> StreamEnd:
    return StreamEnd.FINISHED if finished and all(finished.values()) else StreamEnd.TRUNCATED


def _is_error(event: dict[str, Any]) -> bool:
    return event.get("error") is not None or event.get("type") in _ERROR_TYPES


def _from_the_last(tail: bytes, cut: bool) -> Iterator[dict[str, Any] | None]:
    """The data of each event, the last one first; ``None``, at the end, if there may be more before these.
    What holds no JSON object is left out: comments, names, what broke off."""
    lines = _LINE_ENDS.split(tail)
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not number and cut:
            break
        if line.startswith(b"data:") and (event := _object(line[5:])) is not None:
            yield event
    if cut:
        yield None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except DECODE_ERRORS:
        return None
    return found if isinstance(found, dict) else None
