"""Request body buffer: a body that did not come with its head. It is buffered while its fleet is searched or
a connection opened, then forwarded piece by piece."""

from routing.http.chunked import LAST_CHUNK, encode_chunk

HELD_BYTES = 65_536
"""Kept while a connection is being opened; then the client is paused."""


class RequestBodyBuffer:
    """State of one body that is being forwarded."""

    __slots__ = (
        "_held",
        "chunked",
        "complete",
        "grown",
        "head_s",
        "look_again_at",
        "max_bytes",
        "searched",
    )

    def __init__(self, chunked: bool, piece: bytes, head_s: float = 0.0) -> None:
        self.chunked = chunked
        """Whether its length is not known beforehand, so that it goes upstream in chunks."""
        self.complete = False
        # One row of bytes, for a body may come in pieces of two, which are dear to keep each by itself.
        self._held = bytearray(piece)
        self.searched = 0
        """Bytes that count against the worker's budget for bodies whose fleet is not known yet."""
        self.head_s = head_s
        """How long the request's head took, where it came in pieces."""
        self.max_bytes = 0
        """Set with the fleet."""
        self.look_again_at = 0
        """Bytes of a form, too large to be collected, that must be here before it is searched once more."""
        self.grown = 0
        """By how many bytes it has become longer (or shorter) than the client said."""

    def add(self, piece: bytes, complete: bool) -> None:
        self._held += piece
        self.complete = complete

    @property
    def held(self) -> int:
        """Bytes collected and not yet taken."""
        return len(self._held)

    def take(self) -> bytes:
        """Everything collected."""
        body = bytes(self._held)
        self._held = bytearray()
        return body

    def peek(self) -> bytes:
        """Everything collected, which stays."""
        return bytes(self._held)

    def replace(self, text: bytes) -> None:
        """Send this instead of what was collected."""
        self.grown += len(text) - self.held
        self._held = bytearray(text)

    def framed(self, piece: bytes) -> bytes:
        """A piece as it goes upstream; the last one ends the body."""
        if not self.chunked:
            return piece
        return (encode_chunk(piece) if piece else b"") + (LAST_CHUNK if self.complete else b"")
