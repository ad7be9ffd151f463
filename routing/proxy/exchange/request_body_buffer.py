"""Request body buffer: a body that did not come with its head. It is buffered until its fleet is known and a
connection is open, then forwarded piece by piece (streaming)."""

from collections.abc import Callable
from io import BytesIO

from routing.http.chunked import LAST_CHUNK, encode_chunk
from routing.proxy.errors import RoutingError

HELD_BYTES = 65_536
"""Bytes buffered while a connection is being opened. With more the client is paused (backpressure)."""


class RequestBodyBuffer:
    """State of one body that is being forwarded."""

    __slots__ = (
        "_held",
        "chunked",
        "complete",
        "grown",
        "guard",
        "head_s",
        "look_again_at",
        "max_bytes",
    )

    def __init__(self, chunked: bool, piece: bytes, head_s: float = 0.0) -> None:
        self.chunked = chunked
        """Whether its length is not known in advance, so that it is forwarded in chunks."""
        self.complete = False
        # One buffer: a body may come in pieces of two bytes, and a list of those would take much memory.
        self._held = _buffer_of(piece)
        self.head_s = head_s
        """Seconds that the request's head took, if it came in pieces."""
        self.guard: Callable[[bytes, bool], RoutingError | None] | None = None
        """Given each piece that comes, and whether it is the last: why it must not be forwarded."""
        self.max_bytes = 0
        """Set with the fleet."""
        self.look_again_at = 0
        """A form that is too large to be collected is searched again once it has this many bytes."""
        self.grown = 0
        """How many bytes longer (or shorter) it is than the client's Content-Length."""

    def add(self, piece: bytes, complete: bool) -> None:
        self._held.write(piece)
        self.complete = complete

    @property
    def held(self) -> int:
        """Bytes collected and not yet taken."""
        return self._held.tell()

    def take(self) -> bytes:
        """Everything collected, which is not copied."""
        body, self._held = self._held.getvalue(), BytesIO()
        return body

    def peek(self) -> bytes:
        """Everything collected, without taking it."""
        return self._held.getvalue()

    def replace(self, text: bytes) -> None:
        """Forward this instead of what was collected."""
        self.grown += len(text) - self.held
        self._held = _buffer_of(text)

    def framed(self, piece: bytes) -> bytes:
        """A piece as it goes upstream; the last one ends the body."""
        if not self.chunked:
            return piece
        return (encode_chunk(piece) if piece else b"") + (LAST_CHUNK if self.complete else b"")


def _buffer_of(text: bytes) -> BytesIO:
    """One that is written on after ``text``."""
    buffer = BytesIO()
    buffer.write(text)
    return buffer
