"""``multipart/form-data`` bodies (RFC 7578, RFC 2046 §5.1): audio and image calls of the OpenAI API.

Only the fields ``model`` and ``stream`` are looked at, wherever in the form they stand; the files between
them are passed over by searching for the boundary. A body that is not complete yet is read as far as it is
here: a field counts once the delimiter behind it has come.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

BYTES_PER_TOKEN = 320.0
"""Of a file of speech: Whisper hears 50 frames a second, in 4 kB (compressed) to 32 kB (WAV)."""

_TYPE = re.compile(rb"\r\ncontent-type:[ \t]*+multipart/form-data[ \t]*+(;[^\r]*+)", re.I)
_PARAMETER = re.compile(
    rb"[ \t]*+;[ \t]*+(?:([^\s;=\"]++)[ \t]*+=[ \t]*+(?:\"((?:[^\"\\\r]|\\[^\r])*)\"|([^\s;\"]*+)))?"
)
_DISPOSITION = re.compile(rb"(?:\A|\r\n)content-disposition:[ \t]*+form-data(?=[ \t]*+;)([^\r]*+)", re.I)
_FOLD = re.compile(rb"\r\n[ \t]++")
_QUOTED_PAIR = re.compile(rb"\\(.)", re.S)
_BEHIND_DELIMITER = re.compile(rb"[ \t]*+\r\n|--")
_LENGTH_OF_PART = re.compile(rb"(\r\ncontent-length:[ \t]*+)[0-9]++(?=[ \t]*+(?:\r\n|\Z))", re.I)
_LONGEST_BOUNDARY = 70
_MOST_DELIMITERS = 1000
"""Looked at in one form. Servers take about as many fields; a body full of them must not cost time."""
_LONGEST_HEAD = 16_384
"""Of a part. A longer one is not looked at: each of its bytes may cost time."""
_MOST_OF_HEADS = 1 << 18
"""Bytes of heads in one form. Parts behind these are not looked at."""
_YES = frozenset({b"true", b"1", b"on", b"yes", b"t", b"y"})
"""As FastAPI reads the form field, whatever the case."""


class _Part(NamedTuple):
    """Places in the body."""

    head: int
    """Of the CRLF before the first field."""
    value: int
    end: int


def boundary_of(fields: bytes) -> bytes | None:
    """The boundary in the Content-Type among ``fields`` (each preceded by CRLF), or ``None``."""
    matched = _TYPE.search(fields)
    boundary = _parameter(matched[1], b"boundary") if matched is not None else None
    return boundary if boundary and len(boundary) <= _LONGEST_BOUNDARY else None


def read(body: bytes, boundary: bytes) -> tuple[str, bool]:
    """The value of the field ``model``, the first where there are several, and whether ``stream`` is on.
    Empty: there is no model here."""
    model, stream = "", False
    for part in _parts(body, boundary):
        head = body[part.head : part.value]
        # Names are case-sensitive, so most parts need no closer look.
        if not model and b"model" in head and _name(head) == b"model":
            model = body[part.value : part.end].decode("utf-8", "replace").strip()
        elif b"stream" in head and _name(head) == b"stream":
            stream = body[part.value : part.end].strip().lower() in _YES
    return model, stream


def with_model(body: bytes, boundary: bytes, model: str) -> bytes:
    """The same form with another value of the field that :func:`read` takes the model from."""
    for part in _parts(body, boundary):
        head = body[part.head : part.value]
        if b"model" in head and _name(head) == b"model" and body[part.value : part.end].strip():
            value = model.encode()
            # Some clients (OkHttp) say how long each part is.
            head = _LENGTH_OF_PART.sub(rb"\g<1>%d" % len(value), head)
            return b"".join((body[: part.head], head, value, body[part.end :]))
    return body


def _parts(body: bytes, boundary: bytes) -> Iterator[_Part]:
    """Those whose ends are here. What stands before the first delimiter and behind the last is no part."""
    delimiter = b"\r\n--" + boundary
    head, left = -1, _MOST_OF_HEADS
    at = -2 if body.startswith(delimiter[2:]) else body.find(delimiter)
    for _ in range(_MOST_DELIMITERS):
        if at == -1:
            return
        behind = _BEHIND_DELIMITER.match(body, at + len(delimiter))
        if behind is None:
            # The boundary followed by anything else is data.
            at = body.find(delimiter, max(at + 1, 0))
            continue
        blank = body.find(b"\r\n\r\n", head, min(at, head + _LONGEST_HEAD)) if head >= 0 else -1
        if blank >= 0:
            left -= blank - head
            if left < 0:
                return
            yield _Part(head, blank + 4, at)
        if behind[0] == b"--":
            return
        # The line end of one delimiter may be the one before the next.
        head = behind.end() - 2
        at = body.find(delimiter, head)


def _name(head: bytes) -> bytes | None:
    """What the part is called; an extended ``name*`` is none (RFC 7578 §4.2)."""
    disposition = _DISPOSITION.search(_FOLD.sub(b" ", head))
    return _parameter(disposition[1], b"name") if disposition is not None else None


def _parameter(text: bytes, name: bytes) -> bytes | None:
    """The value of one of the parameters in ``text`` (``;a=b; c="d"``)."""
    at = 0
    while (matched := _PARAMETER.match(text, at)) is not None:
        found, quoted, plain = matched.groups()
        if found is not None and found.lower() == name:
            return _QUOTED_PAIR.sub(rb"\1", quoted) if quoted is not None else plain
        at = matched.end()
    return None
