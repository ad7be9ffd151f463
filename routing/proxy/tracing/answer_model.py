"""Model of an answer: how a response names the model that gave it. Nothing else of the response is kept."""

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

_LARGEST = 1 << 20
"""Bytes of a response that are read for it."""
_HEAD_END = b"\r\n\r\n"
_EVENT = b"data:"


class _Named(msgspec.Struct):
    model: str = ""


class _NamedAnswer(_Named):
    message: _Named = msgspec.field(default_factory=_Named)
    """The first event of Anthropic's streams has it in here."""


_decode = msgspec.json.Decoder(_NamedAnswer).decode


def model_of(data: bytes) -> str:
    """The model that a piece of a response names: a whole JSON object, or the first event of a stream, behind
    the head and the size of a chunk, if those are there. Empty: none."""
    if len(data) > _LARGEST:
        return ""
    if data.startswith(b"HTTP/"):
        data = data[data.find(_HEAD_END) + len(_HEAD_END) :]
    if data[:1] != b"{":
        data = data.partition(_EVENT)[2].partition(b"\n")[0]
    try:
        found = _decode(data)
    except DECODE_ERRORS:
        return ""
    return found.model or found.message.model
