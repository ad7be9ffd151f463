"""Kept stream: the bytes of an answer as they went to its client, within a bound and the worker's budget.

Nothing is read of them until the answer has to be continued. Chunks that pass unread come here a quarter of
a second later, joined: that is the piece which counts their tokens, so it is not even a copy.
"""

from __future__ import annotations

from routing.http.chunked import decode_chunks
from routing.proxy.limits.kept_answers import KeptAnswers

MOST_KEPT_BYTES = 1 << 20
"""Of one answer: some five thousand tokens as servers send them."""


class KeptStream:
    """Of one answer, with the request's body."""

    __slots__ = ("_memory", "_pieces", "_size", "body", "cause")

    def __init__(self, body: bytes, memory: KeptAnswers) -> None:
        """``body``: of the request, whole; empty: there is none to send again."""
        self._memory = memory
        self._pieces: list[bytes] = []
        self._size = 0
        self.body = body
        self.cause = ""
        """Why nothing is kept any more (:data:`routing.protocols.continuation.refusal.CAUSES`)."""
        if not body:
            self.drop("unread_body")
        elif not memory.grow(self, len(body)):
            self.drop("memory")

    def add(self, chunks: bytes) -> None:
        """Whole chunks have gone to the client."""
        if self.cause:
            return
        self._size += len(chunks)
        if self._size > MOST_KEPT_BYTES:
            self.drop("too_long")
        elif not self._memory.grow(self, len(chunks)):
            self.drop("memory")
        else:
            self._pieces.append(chunks)

    def give_up_kept(self) -> None:
        self.drop("memory")

    def drop(self, cause: str) -> None:
        """Keep nothing any more; empty: the answer has ended. May be said more than once; the first cause
        stays."""
        self.cause = self.cause or cause or "ended"
        self.body = b""
        self._pieces.clear()
        self._memory.end(self)

    def text(self) -> bytes:
        """What the client has had."""
        return decode_chunks(b"".join(self._pieces))
