"""Incremental JSON scan: the ``model`` that an object names, while its bytes pass by and are not kept.

Unlike :mod:`routing.protocols.named_models`, which reads a whole body, it does not check whether the object
is well-formed between its members. It is for fleets that only count what would be refused.
"""

import re

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.request_info import BadRequestBody

_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.S)
_MARK = re.compile(rb'["{}\[\],:]')
_DEEPER_MARK = re.compile(rb'["{}\[\]]')
_BLANKS = b" \t\r\n"
_MOST_TEXT = 4096
"""Bytes of a member's name or value that are kept. Longer ones name no model of a fleet."""
_OTHER_UNICODE = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")


class ObjectScan:
    """Reads a body that comes in pieces. All methods raise :class:`BadRequestBody`."""

    __slots__ = ("_any_content", "_depth", "_done", "_held", "_is_model", "_last", "_seen", "_text")

    def __init__(self, *, any_content: bool) -> None:
        """``any_content``: whether the body may be something else than an object."""
        self._any_content = any_content
        self._depth = 0
        self._done = False
        self._held = b""
        """A backslash at the end of a piece."""
        self._text: bytearray | None = None
        """Of the string that is being read; ``None``: none is."""
        self._last = ""
        """The last string among the object's members."""
        self._is_model = False
        """Whether what follows is the value of a member ``model``."""
        self._seen = False

    def feed(self, piece: bytes) -> list[str]:
        """The models that are named in what has come whole with this piece."""
        data, at = self._held + piece, 0
        self._held = b""
        names: list[str] = []
        if not self._depth and not self._done:
            at = self._begin(data)
        while not self._done and at < len(data):
            if self._text is not None:
                at = self._read_string(data, at, names)
            else:
                mark = (_MARK if self._depth == 1 else _DEEPER_MARK).search(data, at)
                at = len(data) if mark is None else mark.end()
                if mark is not None:
                    self._read_mark(mark[0])
        return names

    def finish(self) -> None:
        """The body ends here."""
        if self._depth and not self._done:
            raise BadRequestBody("the body is not a whole JSON object")

    def _begin(self, data: bytes) -> int:
        start = len(data) - len(data.lstrip(_BLANKS))
        first = data[start : start + 1]
        if first == b"{":
            self._depth = 1
            return start + 1
        if first:
            self._done = True
            if not self._any_content:
                raise BadRequestBody("the body must be a JSON object or a form")
            if b"\0" in data[:4] or data.startswith(_OTHER_UNICODE):
                raise BadRequestBody("the body is not in UTF-8, or begins with a byte order mark")
        return len(data)

    def _read_string(self, data: bytes, at: int, names: list[str]) -> int:
        read = _IN_STRING.match(data, at)
        assert read is not None
        text, end = self._text, read.end()
        assert text is not None
        if self._depth == 1 and len(text) < _MOST_TEXT:
            text += data[at : min(end, at + _MOST_TEXT)]
        if data[end : end + 1] != b'"':
            self._held = data[end:]
            return len(data)
        self._text = None
        if self._depth == 1:
            self._last = _decoded(bytes(text))
            if self._is_model and self._last:
                names.append(self._last)
        return end + 1

    def _read_mark(self, mark: bytes) -> None:
        if mark == b'"':
            self._text = bytearray()
        elif mark == b":":
            self._is_model = self._last.casefold() == "model"
            if self._is_model and self._seen:
                raise BadRequestBody("the body has more than one member model")
            self._seen |= self._is_model
        elif mark == b",":
            self._is_model = False
        elif mark in b"{[":
            if self._is_model and self._depth == 1:
                raise BadRequestBody("the body's member model is no string")
            self._depth += 1
        else:
            self._depth -= 1
            self._done = self._depth == 0


def _decoded(text: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % text, type=str)
    except DECODE_ERRORS:
        return text.decode("utf-8", "replace")
