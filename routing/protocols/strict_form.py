"""Strict reading of ``multipart/form-data``: what every server reads alike, or nothing.

:mod:`routing.protocols.multipart` finds a model's name wherever there is one. Here a name decides what a
client may use, so a form that two parsers could read in two ways (a preamble, line ends of one character, a
boundary in the data, a field with two names, transfer encodings …) is refused. Clients' libraries write none
of these.
"""

import re
from collections.abc import Callable

from routing.protocols.request_info import BadRequestBody

MOST_PARTS = 1000
_LONGEST_BOUNDARY = 70
_LONGEST_HEAD = 16_384
_LONGEST_MODEL = 4096
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)\Z")
_PARAMETERS = re.compile(
    rb"(?:[ \t]*+;[ \t]*+[!#$%&'*+\-.^_`|~0-9A-Za-z]++=(?:\"[^\"]*+\"|[^\s;\"]*+))*+[ \t]*+;?[ \t]*+\Z"
)
_PARAMETER = re.compile(rb";[ \t]*+([^=\s;]++)=(?:\"([^\"]*+)\"|([^\s;\"]*+))")
_UNCHANGED = frozenset({b"7bit", b"8bit", b"binary"})
_CHARSETS = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


def parameters(text: bytes) -> dict[bytes, bytes]:
    """The parameters behind a value, ``;a=b; c="d"``, names in lower case. Raises :class:`BadRequestBody`
    where they are not well-formed, or one is given twice."""
    if _PARAMETERS.match(text) is None or b'\\"' in text:
        raise BadRequestBody("the parameters of a field of its head cannot be read in one way only")
    found: dict[bytes, bytes] = {}
    for name, quoted, plain in _PARAMETER.findall(text):
        if name.lower() in found:
            raise BadRequestBody(f"the parameter {name[:40].decode('latin-1')} is given more than once")
        found[name.lower()] = quoted or plain
    return found


def check_charset(given: dict[bytes, bytes]) -> None:
    """Raises :class:`BadRequestBody` where text is in another character set than UTF-8."""
    charset = given.get(b"charset", b"utf-8").lower()
    if charset not in _CHARSETS:
        raise BadRequestBody("the body is not in UTF-8: leave charset out of Content-Type")


class FormScan:
    """Reads a form that comes in pieces; no more is held than a part's head, or the value of ``model``. All
    methods raise :class:`BadRequestBody` with what is wrong with the form."""

    __slots__ = ("_at", "_delimiter", "_held", "_name", "_parts", "_read")

    def __init__(self, given: dict[bytes, bytes]) -> None:
        """``given``: the parameters of its Content-Type."""
        boundary = given.get(b"boundary", b"")
        if not 1 <= len(boundary) <= _LONGEST_BOUNDARY:
            raise BadRequestBody("the Content-Type of the form has no boundary of 1 to 70 characters")
        self._delimiter = b"--" + boundary
        # As if a line had ended before the first delimiter.
        self._held = b"\r\n"
        self._at = 0
        """Up to where that is read. It is cut once a piece, so that many parts do not copy it many times."""
        self._read: Callable[[list[str]], bool] = self._read_start
        self._name = ""
        self._parts = 0

    def feed(self, piece: bytes) -> list[str]:
        """The models that are named in what has come whole with this piece."""
        self._held += piece
        names: list[str] = []
        while self._read(names):
            pass
        self._held, self._at = self._held[self._at :], 0
        return names

    def finish(self) -> None:
        """The form ends here."""
        if self._read != self._read_end or self._held not in (b"", b"\r\n"):
            raise BadRequestBody("the form does not end with its boundary")

    # Each reads one element of what is held, and returns whether there may be more.

    def _read_start(self, names: list[str]) -> bool:
        expected = b"\r\n" + self._delimiter
        if not self._held.startswith(expected[: len(self._held)]):
            raise BadRequestBody("the form does not begin with its boundary")
        if len(self._held) < len(expected):
            return False
        self._at = len(expected)
        self._read = self._read_behind_delimiter
        return True

    def _read_behind_delimiter(self, names: list[str]) -> bool:
        behind = self._held[self._at : self._at + 2]
        if len(behind) < 2:
            return False
        self._at += 2
        if behind == b"--":
            self._read = self._read_end
        elif behind == b"\r\n":
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise BadRequestBody(f"the form has more than {MOST_PARTS} parts")
            self._read = self._read_head
        else:
            raise BadRequestBody("the form's boundary occurs in its data")
        return True

    def _read_head(self, names: list[str]) -> bool:
        end = self._held.find(b"\r\n\r\n", self._at, self._at + _LONGEST_HEAD)
        if end < 0 and len(self._held) - self._at < _LONGEST_HEAD:
            return False
        head = self._held[self._at : end]
        if end < 0 or self._delimiter in head:
            raise BadRequestBody("a part of the form has no head that ends with an empty line")
        self._name = _name_of(head).casefold()
        self._at = end + 4
        self._read = self._read_value
        return True

    def _read_value(self, names: list[str]) -> bool:
        found = self._held.find(self._delimiter, self._at)
        if found < 0:
            if self._name != "model":
                # What may be the beginning of a delimiter is kept, with the line end before it.
                self._at = max(self._at, len(self._held) - len(self._delimiter) - 2)
            elif len(self._held) - self._at > _LONGEST_MODEL:
                raise BadRequestBody("the field model of the form is too long")
            return False
        if self._held[max(self._at, found - 2) : found] != b"\r\n":
            raise BadRequestBody("the form's boundary occurs in its data")
        if self._name == "model":
            names.append(_model(self._held[self._at : found - 2]))
        self._at = found + len(self._delimiter)
        self._read = self._read_behind_delimiter
        return True

    def _read_end(self, names: list[str]) -> bool:
        if len(self._held) - self._at > 2:
            raise BadRequestBody("something stands behind the end of the form")
        return False


def _model(value: bytes) -> str:
    try:
        return value.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise BadRequestBody("the field model of the form is not UTF-8") from None


def _name_of(head: bytes) -> str:
    """The name of the field that a part holds. Raises :class:`BadRequestBody`."""
    name: str | None = None
    for line in head.split(b"\r\n"):
        field = _FIELD.match(line)
        if field is None:
            raise BadRequestBody("a line in the head of a part of the form is no header field")
        called = field[1].lower()
        kind, semicolon, rest = field[2].partition(b";")
        if called == b"content-disposition":
            if name is not None:
                raise BadRequestBody("a part of the form has more than one Content-Disposition")
            name = _disposition(kind, parameters(semicolon + rest))
        elif called == b"content-type":
            check_charset(parameters(semicolon + rest))
        elif called == b"content-transfer-encoding" and kind.strip().lower() not in _UNCHANGED:
            raise BadRequestBody("a part of the form has a transfer encoding, which is not decoded")
    if name is None:
        raise BadRequestBody("a part of the form has no Content-Disposition")
    return name


def _disposition(kind: bytes, given: dict[bytes, bytes]) -> str:
    name = given.get(b"name")
    if kind.strip().lower() != b"form-data" or not name:
        raise BadRequestBody("a part of the form has no name")
    if b"name*" in given:
        raise BadRequestBody("a part of the form has an extended name (name*): write its name as it is")
    if name == b"_charset_":
        raise BadRequestBody("the form has a field _charset_: send UTF-8 without it")
    return name.replace(b"\\", b"").decode("utf-8", "replace")
