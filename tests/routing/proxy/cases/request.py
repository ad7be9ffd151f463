"""What a request case consists of: the bytes that a client sends, and every byte that must come of them.

An id begins with that of a row of the catalogue that the proxy is built to; a letter and words behind it tell
further inputs that the same RFC clauses rule on. The clause is the rule, the case only a sample of it.
"""

import re
from dataclasses import dataclass

H = b"Host: a.test\r\n"
CH = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
N = b"GET /smuggled HTTP/1.1\r\n" + H + b"\r\n"
FORTY = N.ljust(40, b"x")[:40]
FIVE = b"Content-Length: 5\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_TRACE = re.compile(rb"\r\ntraceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-01\r\n\r\n\Z")


@dataclass(frozen=True)
class Forwarded:
    """One request as the replica must get it, byte for byte."""

    line: bytes = b"GET / HTTP/1.1"
    fields: bytes = b""
    """The client's own, each with its line end."""
    body: bytes = b""
    chunked: bool = False
    """Whether the client sent it in chunks. What was there at once goes on with its length."""
    forwarded_for: bytes = b"127.0.0.1"
    via: bytes = b"1.1 switchyard"
    hop: bytes = b""
    """What the proxy says to the next hop alone."""
    request_id: bytes = b""
    """The client's; empty: one that the proxy made."""
    traced: bool = False
    """Whether the client has begun a trace; else the proxy begins one."""

    def head(self, authority: bytes, at_once: bool) -> bytes:
        """Up to the value of X-Request-Id. ``at_once``: the whole request came in one segment."""
        length = b""
        if self.chunked:
            length = b"Transfer-Encoding: chunked\r\n"
            if at_once:
                length = b"Content-Length: %d\r\n" % len(self.body) if self.body else b""
        return (
            self.line
            + b"\r\nHost: "
            + authority
            + b"\r\n"
            + self.fields
            + length
            + b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: http\r\n" % self.forwarded_for
            + b"Via: %b\r\n" % self.via
            + self.hop
            + b"X-Request-Id: "
            + self.request_id
        )

    def is_head(self, seen: bytes, authority: bytes, at_once: bool) -> bool:
        expected = self.head(authority, at_once)
        if not seen.startswith(expected):
            return False
        end = len(expected)
        if not self.request_id:
            made = _REQUEST_ID.match(seen, end)
            end = made.end() if made else len(seen)
        return seen[end:] == b"\r\n\r\n" if self.traced else _TRACE.match(seen, end) is not None


@dataclass(frozen=True)
class Case:
    id: str
    sent: bytes
    statuses: tuple[int, ...]
    """Of the final answers, in order."""
    closes: bool = False
    """Whether the proxy must end the connection; otherwise it must serve another request."""
    forwarded: tuple[Forwarded, ...] = ()
    methods: tuple[bytes, ...] = ()
    """Of the requests that are answered; empty: all have the first one's."""
    begun: Forwarded | None = None
    """What may have been begun at the replica, where the bytes came one by one; it must be aborted."""
    asks_to_continue: bool = False
    """Whether 100 comes first, where the body has not come with the head."""
    early: bool = False
    """The first answer does not wait for the request's body: where that comes later, it is the last one."""
    half_closes: bool = False
    """The client ends its side after the last byte."""


def refused(id: str, sent: bytes, status: int = 400) -> Case:
    return Case(id, sent, (status,), closes=True)


def passes(id: str, sent: bytes, *forwarded: Forwarded, closes: bool = False) -> Case:
    return Case(id, sent, (200,) * len(forwarded), closes, forwarded)


def answered_here(id: str, sent: bytes, *forwarded: Forwarded) -> Case:
    """By the proxy itself, with 200; what follows on the connection is forwarded."""
    return Case(id, sent, (200,) * (1 + len(forwarded)), forwarded=forwarded)


def bad_chunk(id: str, chunks: bytes) -> Case:
    return Case(id, CH + chunks, (400,), closes=True, begun=Forwarded(b"POST /p HTTP/1.1", chunked=True))


def get(fields: bytes = b"") -> bytes:
    return b"GET / HTTP/1.1\r\n" + H + fields + b"\r\n"


def post(fields: bytes, body: bytes = b"hello") -> bytes:
    return b"POST /p HTTP/1.1\r\n" + H + fields + b"\r\n" + body


def posted(fields: bytes = b"", body: bytes = b"hello", chunked: bool = False) -> Forwarded:
    return Forwarded(b"POST /p HTTP/1.1", fields, body, chunked)


def line(start: bytes, fields: bytes = H) -> bytes:
    return start + b"\r\n" + fields + b"\r\n"
