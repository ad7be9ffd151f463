"""The request fields that concern this hop: read, checked and cut out of what is forwarded.

RFC 9110 §7.6.1 lists what an intermediary removes; RFC 9112 §6 says what frames the body. Fields
that the proxy writes itself (Via, X-Forwarded-*, X-Request-Id) are read here and removed too, so
that a client's copy never stands beside ours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from routing.http.errors import RequestRefused
from routing.http.syntax import HOST, LENGTH, members

if TYPE_CHECKING:
    from routing.http.request_head import RequestHead

_OURS = re.compile(
    rb"\r\n(c(?:ontent-length|onnection)|host|t(?:e|ransfer-encoding|railer)|upgrade|keep-alive"
    rb"|proxy-(?:connection|authorization)|expect|via|max-forwards"
    rb"|x-(?:forwarded-(?:for|proto)|request-id|switchyard-(?:fleet|replica))):[ \t]*+([^\r]*+)"
)
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}+\Z")
_NEVER_NOMINATED = frozenset({b"content-length", b"close", b"keep-alive"})


def read_hop_fields(head: RequestHead, fields: bytes, has_host: bool) -> None:
    """Fill ``head`` from ``fields`` (each preceded by CRLF). ``has_host``: a valid Host stood before them.

    Raises :class:`RequestRefused`.
    """
    lowered = fields.lower()
    found = _OURS.findall(lowered)
    if has_host and not found:
        head.fields = fields
    elif has_host and len(found) == 1 and found[0][0] == b"content-length":
        head.content_length = _content_length(found[0][1])
        head.fields = fields
    else:
        _HopFields(head, fields, lowered, has_host).read()


def _content_length(value: bytes) -> int:
    digits = value.rstrip(b" \t")
    if LENGTH.match(digits) is None:
        raise RequestRefused(400, "bad_content_length", "Content-Length must be one decimal number")
    return int(digits)


class _HopFields:
    """One pass over the fields of one head that need more than a glance."""

    __slots__ = (
        "fields",
        "forwarded_for",
        "has_host",
        "head",
        "lengths",
        "lowered",
        "nominated",
        "transfer_encodings",
        "via",
    )

    def __init__(self, head: RequestHead, fields: bytes, lowered: bytes, has_host: bool) -> None:
        self.head = head
        self.has_host = has_host
        self.fields = fields
        self.lowered = lowered
        self.lengths = 0
        self.transfer_encodings: list[bytes] = []
        self.nominated: set[bytes] = set()
        self.via: list[bytes] = []
        self.forwarded_for: list[bytes] = []

    def read(self) -> None:
        kept = []
        position = 0
        for match in _OURS.finditer(self.lowered):
            start, end = match.span()
            if not self._stays(match[1], self.fields[match.start(2) : end].rstrip(b" \t")):
                kept.append(self.fields[position:start])
                position = end
        kept.append(self.fields[position:])
        fields = b"".join(kept)
        head = self.head
        head.fields = _without(fields, self.nominated) if self.nominated else fields
        head.via = b", ".join(self.via) or None
        head.forwarded_for = b", ".join(self.forwarded_for) or None
        head.plain = not self.via and not self.forwarded_for and head.max_forwards < 0
        if not self.has_host and head.minor == 1:
            raise RequestRefused(400, "missing_host", "an HTTP/1.1 request must have a Host field")
        if self.transfer_encodings:
            self._check_transfer_encoding()

    def _stays(self, name: bytes, value: bytes) -> bool:
        """Take note of one field; whether it is forwarded as it is."""
        head = self.head
        if name == b"content-length":
            self.lengths += 1
            if self.lengths > 1:
                raise RequestRefused(
                    400, "duplicate_content_length", "Content-Length is given more than once"
                )
            head.content_length = _content_length(value)
            return True
        if name == b"max-forwards":
            return self._max_forwards(value)
        if name == b"connection":
            self._connection(members(value))
        elif name == b"transfer-encoding":
            self.transfer_encodings.append(value.lower())
        elif name == b"host":
            self._host(value)
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise RequestRefused(417, "unknown_expectation", "the only known expectation is 100-continue")
            head.expects_continue = head.minor == 1
        elif name == b"via":
            self.via.append(value)
        elif name == b"x-forwarded-for":
            self.forwarded_for.append(value)
        elif name == b"x-request-id" and _REQUEST_ID.match(value):
            head.request_id = value
        elif name == b"x-switchyard-fleet":
            head.fleet = value
        return False

    def _host(self, value: bytes) -> None:
        if self.has_host:
            raise RequestRefused(400, "duplicate_host", "the request has more than one Host field")
        if HOST.match(value) is None:
            raise RequestRefused(
                400, "bad_host", "the Host field is not a host name or address with an optional port"
            )
        self.has_host = True

    def _connection(self, options: list[bytes]) -> None:
        if b"close" in options:
            self.head.keep_alive = False
        # Framing is never nominated away: what was read by it must be forwarded by it.
        self.nominated.update(option for option in options if option not in _NEVER_NOMINATED)

    def _max_forwards(self, value: bytes) -> bool:
        if self.head.method != b"OPTIONS":
            return True
        if not value.isdigit() or len(value) > 9:
            raise RequestRefused(400, "bad_max_forwards", "Max-Forwards must be a decimal number")
        self.head.max_forwards = int(value)
        return False

    def _check_transfer_encoding(self) -> None:
        if self.lengths:
            raise RequestRefused(
                400, "ambiguous_length", "Content-Length and Transfer-Encoding exclude each other"
            )
        if len(self.transfer_encodings) > 1:
            raise RequestRefused(
                400, "duplicate_transfer_encoding", "Transfer-Encoding is given more than once"
            )
        if self.transfer_encodings[0] != b"chunked":
            raise RequestRefused(
                501, "unknown_transfer_encoding", "the only known transfer coding is chunked"
            )
        if self.head.minor == 0:
            raise RequestRefused(400, "chunked_http_1_0", "an HTTP/1.0 request cannot be chunked")
        self.head.chunked = True


def _without(fields: bytes, names: set[bytes]) -> bytes:
    """``fields`` less every field with one of these lower-case names."""
    lines = fields.split(b"\r\n")[1:]
    return b"".join([b"\r\n" + line for line in lines if line.partition(b":")[0].lower() not in names])
