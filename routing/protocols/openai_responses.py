"""OpenAI's Responses API, for sticky routing: ids in paths, requests and answers say who must answer.

``POST /v1/responses`` makes a response, which the server keeps unless ``store`` is false; ``GET`` and
``DELETE /v1/responses/{id}`` and the paths below are about one, and ``previous_response_id`` in a request to
make another goes on from it. Conversations are made by ``POST /v1/conversations`` and named alike.
Source: OpenAI's API reference, "Responses" and "Conversations".
"""

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

MOST_BYTES = 1 << 20
"""Bytes of an answer that are searched."""
MOST_DECODED = 8 << 20
"""Bytes that are decoded in the attempts to read a JSON answer, which may look complete before it is."""

_RESPONSE = b'"response"'
_PATH = re.compile(rb"/v1/(?:(responses)|conversations)(?:/([^/?]++)(/[^?]*+)?)?/?(?:\?|\Z)")


class ResponsesRequest(NamedTuple):
    """What a request to make a response says."""

    name: str
    """The response or conversation that it goes on from; empty: none."""
    stores: bool
    """Whether the server is to keep what it makes."""


class _ObjectRef(msgspec.Struct):
    id: str = ""


class _CreateRequest(msgspec.Struct):
    previous_response_id: str | None = None
    conversation: str | _ObjectRef | None = None
    store: bool | None = None


class _CreatedResponse(msgspec.Struct):
    id: str
    conversation: str | _ObjectRef | None = None
    store: bool | None = None


class _ResponseEvent(msgspec.Struct):
    response: _CreatedResponse


_decode_request = msgspec.json.Decoder(_CreateRequest).decode
_decode_created = msgspec.json.Decoder(_CreatedResponse).decode
_decode_event = msgspec.json.Decoder(_ResponseEvent).decode


def id_in_path(method: bytes, target: bytes) -> str | None:
    """The response or conversation that the path names; empty: one is made; ``None``: another path."""
    matched = _PATH.match(target)
    if matched is None:
        return None
    is_response, name, rest = matched.groups()
    if name is None:
        return "" if method == b"POST" else None
    if is_response and method == b"POST" and not rest:
        # As /v1/responses/input_tokens: a word, not an id.
        return None
    return unquote_to_bytes(name).decode("utf-8", "replace")


def read(body: bytes) -> ResponsesRequest:
    """Never raises: what cannot be read names nothing, and the server is to say so."""
    try:
        said = _decode_request(body)
    except DECODE_ERRORS:
        return ResponsesRequest("", True)
    return ResponsesRequest(said.previous_response_id or _id(said.conversation), said.store is not False)


class CreatedIdSearch:
    """Searches an answer that comes in pieces for the ids that the server keeps from now on.

    However small the pieces are, each byte of an event stream is examined a fixed number of times, and no
    more of it is held than the line that has not come whole. A JSON answer is held, and decoded where it may
    be complete, all together within :data:`MOST_DECODED` bytes.
    """

    __slots__ = ("_decoded", "_events", "_examined", "_held")

    def __init__(self, events: bool) -> None:
        """``events``: the answer is a stream of server-sent events, one of which carries the response."""
        self._events = events
        self._held = bytearray()
        self._examined = 0
        self._decoded = 0

    @property
    def exhausted(self) -> bool:
        """Whether as much was searched as is to be. An id that comes later is not found."""
        return self._examined >= MOST_BYTES or self._decoded >= MOST_DECODED

    @property
    def held(self) -> int:
        """Bytes that are held."""
        return len(self._held)

    def feed(self, piece: bytes) -> tuple[str, ...] | None:
        """The ids, if this piece completes what names them; ``None``: it does not."""
        self._examined += len(piece)
        if not self._events:
            made = self._in_json(piece)
        elif not self._held and piece.endswith(b"\n"):
            # Whole lines, as nearly every event comes.
            made = _first_created(piece)
        else:
            made = self._in_lines(piece)
        if made is None:
            return None
        names = (made.id, _id(made.conversation))
        return tuple(name for name in names if name) if made.store is not False else ()

    def _in_lines(self, piece: bytes) -> _CreatedResponse | None:
        held = self._held
        end = piece.rfind(b"\n") + 1
        if not end:
            held += piece
            return None
        lines = bytes(held) + piece[:end]
        self._held = bytearray(piece[end:])
        return _first_created(lines)

    def _in_json(self, piece: bytes) -> _CreatedResponse | None:
        self._held += piece
        if not piece.rstrip().endswith(b"}"):
            return None
        self._decoded += len(self._held)
        try:
            return _decode_created(self._held)
        except DECODE_ERRORS:
            return None


def _first_created(lines: bytes) -> _CreatedResponse | None:
    """Of the first event in whole lines that carries a response."""
    if lines.find(_RESPONSE) < 0:
        return None
    for line in lines.split(b"\n"):
        if line.startswith(b"data:") and line.find(_RESPONSE) >= 0:
            try:
                return _decode_event(line[5:]).response
            except DECODE_ERRORS:
                # The word stands elsewhere in this event.
                continue
    return None


def _id(named: str | _ObjectRef | None) -> str:
    return named.id if isinstance(named, _ObjectRef) else named or ""
