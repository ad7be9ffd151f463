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


def created_ids(answer: bytes, events: bool) -> tuple[str, ...] | None:
    """Ids that the server keeps from now on, by what has come of its answer; ``None``: it cannot be told yet.
    ``events``: it is a stream of server-sent events, the first of which carries the response."""
    try:
        made = _first_created(answer) if events else _decode_created(answer)
    except DECODE_ERRORS:
        return None
    if made is None:
        return None
    names = (made.id, _id(made.conversation))
    return tuple(name for name in names if name) if made.store is not False else ()


def _first_created(stream: bytes) -> _CreatedResponse | None:
    """Of the first event that carries a response. Raises MsgspecError while it has not come whole."""
    for line in stream.split(b"\n"):
        if line.startswith(b"data:") and line.find(b'"response"') >= 0:
            return _decode_event(line[5:]).response
    return None


def _id(named: str | _ObjectRef | None) -> str:
    return named.id if isinstance(named, _ObjectRef) else named or ""
