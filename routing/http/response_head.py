"""Response parser: a replica's head checked strictly, hop-by-hop headers removed, framing understood.

RFC 9112 §6.3 decides where the body ends; a response that contradicts it is a :class:`BadResponse`, which the
client sees as a 502.
"""

import re
from typing import Final

from routing.http.dates import date_field
from routing.http.errors import BadResponse
from routing.http.retry_after import seconds_of
from routing.http.syntax import LENGTH, TEXT, TOKEN, members, without_fields

MAX_RESPONSE_HEAD: Final = 131_072

_HEAD: Final = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])( "
    + TEXT
    + rb"*+)?((?:\r\n"
    + TOKEN
    + rb"++:"
    + TEXT
    + rb"*+)*)\r\n\r\n"
)
_HANDLED: Final = re.compile(
    rb"\r\n(c(?:ontent-length|onnection)|t(?:e|ransfer-encoding|railer)|upgrade|keep-alive"
    rb"|proxy-(?:connection|authenticate)|retry-after|endpoint-load-metrics"
    rb"|x-(?:request-id|switchyard-(?:replica|retries|retry-reason|fleet|model|fallback))):[ \t]*+([^\r]*+)"
)
_WEB_SOCKET: Final = re.compile(rb"\r\nupgrade:[ \t]*+websocket[ \t]*+\r\n", re.IGNORECASE)
_BODILESS: Final = frozenset({*range(100, 200), 204, 304})


class ResponseHead:
    """One response's head. ``block`` is status line and fields to forward, without the last CRLF."""

    __slots__ = (
        "_date",
        "_undated_block",
        "block",
        "chunked",
        "content_length",
        "keep_alive",
        "load",
        "plain",
        "retry_after",
        "retry_after_s",
        "status",
        "undated",
        "unusual",
    )

    def __init__(self, status: int, keep_alive: bool) -> None:
        self.status = status
        self.keep_alive = keep_alive
        """Whether the replica lets the connection be used again."""
        self.block = b""
        """Holds Content-Length as it came; Transfer-Encoding is not in here."""
        self.content_length = -1
        """-1: none given."""
        self.chunked = False
        self.retry_after = False
        self.retry_after_s = -1.0
        """Seconds that ``Retry-After`` says; below 0: it is not there."""
        self.load = b""
        """What ``endpoint-load-metrics`` says, in lower case. It is for this proxy and not in ``block``."""
        self.plain = False
        """A final response whose body (unless it answers HEAD) has the length given."""
        self.unusual = True
        """Chunked, or an error."""
        self.undated = False
        """The replica gave no Date (RFC 9110 §6.6.1): ``block`` holds the moment at which it was received."""
        self._undated_block = self._date = b""

    def __repr__(self) -> str:
        return f"<ResponseHead {self.status}>"

    @property
    def received(self) -> bytes:
        """``block`` without a Date that was added."""
        return self._undated_block if self.undated else self.block

    def date(self) -> None:
        """It has just been received, perhaps not for the first time, and is undated."""
        date = date_field()
        if date is not self._date:
            if not self.undated:
                self.undated, self._undated_block = True, self.block
            self._date = date
            self.block = self._undated_block + date

    def repeat(self, block: bytes, content_length: int) -> None:
        """The same, but for these, has just been received. ``block``: without a Date that is added."""
        self.content_length = content_length
        if self.undated:
            self._undated_block, self._date = block, b""
            self.date()
        else:
            self.block = block

    def drop_content_length(self) -> None:
        """For statuses that must not carry one (RFC 9110 §8.6)."""
        lines = self.block.split(b"\r\n")
        self.block = b"\r\n".join([line for line in lines if not line.lower().startswith(b"content-length:")])
        self.content_length = -1


def parse_response_head(data: bytes, start: int) -> tuple[ResponseHead, int]:
    """Read the head that begins at ``start`` and is complete; returns it and where the body begins.

    Raises :class:`BadResponse`.
    """
    matched = _HEAD.match(data, start)
    if matched is None:
        raise BadResponse("the response head is not valid HTTP/1.1")
    end = matched.end()
    if end - start > MAX_RESPONSE_HEAD:
        raise BadResponse("the response head is too long")
    minor, code, reason, fields = matched.groups()
    status = int(code)
    head = ResponseHead(status, minor == b"1")
    lowered = fields.lower()
    found = _HANDLED.findall(lowered)
    if (
        len(found) == 1
        and found[0][0] == b"content-length"
        and minor == b"1"
        and reason
        and status not in _BODILESS
    ):
        head.content_length = _content_length(found[0][1])
        head.block = data[start : end - 4]
        head.plain = True
        head.unusual = status >= 400
        _date(head, lowered)
        return head, end
    head.block = b"HTTP/1.1 %b%b%b" % (code, reason or b" ", _cut(head, fields, lowered) if found else fields)
    if status in _BODILESS:
        head.chunked = False
        if status != 304:
            head.drop_content_length()
    else:
        head.plain = head.content_length >= 0
    head.unusual = head.chunked or status >= 400
    if status >= 200:
        _date(head, lowered)
    return head, end


def switches_to_web_socket(text: bytes) -> bool:
    """Whether the head of a 101 response names the one protocol that may be asked for here."""
    return _WEB_SOCKET.search(text) is not None


def _date(head: ResponseHead, lowered: bytes) -> None:
    if lowered.find(b"\r\ndate:") < 0:
        head.date()


def _content_length(value: bytes) -> int:
    digits = value.rstrip(b" \t")
    if LENGTH.match(digits) is None:
        raise BadResponse("the response's Content-Length is not a number")
    return int(digits)


def _cut(head: ResponseHead, fields: bytes, lowered: bytes) -> bytes:
    kept = []
    position = 0
    nominated: list[bytes] = []
    transfer_encodings = []
    http_1_0 = not head.keep_alive
    for match in _HANDLED.finditer(lowered):
        name, value = match[1], match[2].rstrip(b" \t")
        if name == b"content-length":
            if head.content_length >= 0:
                raise BadResponse("the response has more than one Content-Length")
            head.content_length = _content_length(value)
            continue
        if name == b"retry-after":
            head.retry_after = True
            head.retry_after_s = max(head.retry_after_s, seconds_of(value))
            continue
        if name == b"endpoint-load-metrics":
            head.load = value
        elif name == b"connection":
            nominated += members(value)
        elif name == b"transfer-encoding":
            transfer_encodings.append(value)
        kept.append(fields[position : match.start()])
        position = match.end()
    kept.append(fields[position:])
    if transfer_encodings:
        _check_transfer_encoding(head, transfer_encodings)
    remaining = b"".join(kept)
    if not nominated:
        return remaining
    if b"close" in nominated:
        head.keep_alive = False
    elif http_1_0 and b"keep-alive" in nominated and not head.chunked:
        head.keep_alive = True
    names = frozenset(nominated) - {b"close", b"keep-alive", b"content-length"}
    return without_fields(remaining, names) if names else remaining


def _check_transfer_encoding(head: ResponseHead, values: list[bytes]) -> None:
    if head.content_length >= 0:
        raise BadResponse("the response has both Content-Length and Transfer-Encoding")
    if len(values) > 1 or values[0] != b"chunked":
        raise BadResponse("the response has a Transfer-Encoding other than chunked")
    head.chunked = True
