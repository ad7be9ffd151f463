"""Partial head: a request head that arrives in pieces, and the checks that can refuse it before it is
complete."""

import re

from routing.http.errors import RequestRefused
from routing.http.limits import ConnectionLimits
from routing.http.request_parser import head_too_large
from routing.http.syntax import BARE_LINE_FEED, HEAD_END, LINE_END, TOKEN

_BEGINNING = re.compile(rb"(?:\r\n)*+(?:\r?\Z|" + TOKEN + rb")")
_METHOD_AND_VERSION = 64


class PartialHead:
    """Collects pieces until the head is complete. Reads each byte about once, however small the pieces."""

    __slots__ = ("_bytes", "_limits")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._bytes = bytearray()

    @property
    def beginning(self) -> bytes:
        """What tells the method, as far as it has come."""
        return bytes(self._bytes[:_METHOD_AND_VERSION])

    def add(self, data: bytes) -> bytes | None:
        """Everything collected, once the end of the head is in it. Raises :class:`RequestRefused`."""
        collected = self._bytes
        known = len(collected)
        collected += data
        if collected.find(HEAD_END, max(0, known - 3)) >= 0:
            return bytes(collected)
        if BARE_LINE_FEED.search(collected, known):
            raise RequestRefused(400, "bare_line_feed", "a line of the request head does not end in CRLF")
        if not _BEGINNING.match(collected):
            raise RequestRefused(400, "bad_request_line", "the request does not begin with a method")
        if len(collected) > self._limits.max_head or self._line_is_too_long():
            raise head_too_large(collected, 0, self._limits)
        return None

    def _line_is_too_long(self) -> bool:
        longest = self._limits.max_target + _METHOD_AND_VERSION
        return len(self._bytes) > longest and self._bytes.find(LINE_END, 0, longest) < 0
