"""What a response case consists of: the bytes that a replica sends, and all that its client must get."""

from dataclasses import dataclass

OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = OK + b"Content-Length: 2"
"""A head as the client gets it, less what the proxy adds behind."""
OK_ANSWER = PLAIN + b"\r\n\r\nok"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BARE = b"HTTP/1.1 200 OK"


@dataclass(frozen=True)
class Case:
    id: str
    sent: bytes
    gets: bytes = b""
    """Status line and fields for the client, before what the proxy adds; empty: a 502 of the proxy's own."""
    body: bytes = b""
    then: str = ""
    """What the replica does after the last byte: nothing, ``fin`` or ``rst``."""
    method: bytes = b"GET"
    version: bytes = b"1.1"
    before: tuple[bytes, ...] = ()
    """Interim responses that the client gets first, each without its empty line."""
    complete: bool = True
    reused: bool = False
    """Whether the connection to the replica may serve another request."""
    begun: bytes | None = None
    """The body as far as it is good, of a 502 whose fault lies behind the head. Where that has come before
    the fault, the client has it, and its connection is cut."""


def good(id: str, sent: bytes, gets: bytes = PLAIN, body: bytes = b"ok") -> Case:
    """Passed on, and the connection to the replica is kept."""
    return Case(id, sent, gets, body, reused=True)


def last(id: str, sent: bytes, gets: bytes = PLAIN, body: bytes = b"ok", then: str = "") -> Case:
    """Passed on, and the connection to the replica is closed."""
    return Case(id, sent, gets, body, then)


def cut(id: str, sent: bytes, then: str, gets: bytes, body: bytes) -> Case:
    """The client gets what came, and can see that it is not all."""
    return Case(id, sent, gets, body, then, complete=False)


def bad(id: str, sent: bytes, then: str = "") -> Case:
    return Case(id, sent, then=then)


def bad_chunk(id: str, chunks: bytes, begun: bytes = b"") -> Case:
    return Case(id, CHUNKED + chunks, begun=begun)
