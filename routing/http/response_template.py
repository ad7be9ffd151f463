"""Response template: recognises a response head that is like one that was checked, but for length and date.

Theory. A model server repeats its heads except for Content-Length and, once a second, Date. As in
:mod:`routing.http.head_cache`, the checked head is cut at these values into fixed bytes and holes. No hole
can hold a line end, so a head with the same fixed bytes, digits in the one hole and 29 printable bytes in the
other would be parsed alike, and is forwarded alike but for these.

Heads that have the same fixed bytes share one pattern. It is compiled when they are met for the second time:
a server whose heads differ elsewhere too costs no more than a look at each.
"""

import re
from collections.abc import Callable
from typing import Final

from routing.http.response_head import ResponseHead, parse_response_head

LONGEST: Final = 4096
"""Bytes of a head that is worth keeping."""
TRIES: Final = 16
"""Of one connection, to find a head that comes again."""
_MOST_PATTERNS: Final = 256
_HOLES: Final = re.compile(
    rb"(?<=\r\n)(?:(content-length:[ \t]*+)[0-9]++|(date:[ \t]*+)[ -~]{29}(?=\r|\Z))", re.IGNORECASE
)
_DIGITS: Final = rb"(?P<length>[0-9]{1,18}+)"
_DATE: Final = rb"([ -~]{29})"
_patterns: dict[bytes, re.Pattern[bytes] | None] = {}
"""By what is fixed; ``None``: met once."""


class ResponseTemplate:
    """Of one connection. ``head`` is that of the response recognised last, and changes with the next."""

    __slots__ = ("_forwarded", "_match", "_verbatim", "head")

    def __init__(self, head: ResponseHead, text: bytes, pattern: re.Pattern[bytes]) -> None:
        self.head = head
        self._match = pattern.match
        self._verbatim = head.received == text[:-4]
        self._forwarded = _filled(head.received, _escaped_percent, b"%b", b"%b")
        """With what is in the holes: some fields are for this hop alone."""

    def recognise(self, data: bytes) -> int:
        """Where the body begins, if ``data`` is a whole response with such a head; 0: it is not."""
        matched = self._match(data)
        if matched is None:
            return 0
        begin, length = matched.end(), int(matched["length"])
        if begin + length != len(data):
            return 0
        self.head.repeat(data[: begin - 4] if self._verbatim else self._forwarded % matched.groups(), length)
        return begin


def template_of(text: bytes) -> ResponseTemplate | None:
    """Of a plain head, its empty line included. ``None``: its like has not been met before."""
    key = _HOLES.sub(rb"\1\2", text)
    pattern = _patterns.get(key)
    if pattern is None:
        if key not in _patterns:
            if len(_patterns) >= _MOST_PATTERNS:
                _patterns.clear()
            _patterns[key] = None
            return None
        _patterns[key] = pattern = re.compile(_filled(text, re.escape, _DIGITS, _DATE))
    head, _ = parse_response_head(text, 0)
    if len(_HOLES.findall(head.received)) != pattern.groups:
        return None  # one is for this hop alone: Connection has named it
    return ResponseTemplate(head, text, pattern)


def _filled(text: bytes, escaped: Callable[[bytes], bytes], length: bytes, date: bytes) -> bytes:
    """The head with this in its holes, and what is around them ``escaped``."""
    parts, position = [], 0
    for hole in _HOLES.finditer(text):
        name, value = (hole[1], length) if hole[1] is not None else (hole[2], date)
        parts.append(escaped(text[position : hole.start()] + name) + value)
        position = hole.end()
    parts.append(escaped(text[position:]))
    return b"".join(parts)


def _escaped_percent(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
