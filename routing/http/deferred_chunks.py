"""Deferred chunks: what was read of a chunked body and is decoded a little at a time.

Theory. A size line takes as long to read as kilobytes of data do. One read of a connection may bring 20,000
of them, 60 ms of work, and so may those of a hundred other connections in the same turn of the loop. So where
the chunks of one read are small, none is decoded at once: the connection waits for its turn
(:mod:`routing.http.read_turns`), again for each ``SLICE`` of what it holds, and nothing more is read of it
meanwhile.
"""

from __future__ import annotations

SLICE = 4096
"""Bytes decoded in one turn: about a millisecond's work at most."""
_MOST_LINES = 512
"""Line ends in what is decoded at once."""


def are_small(data: bytes) -> bool:
    """Whether it would take long to decode all of this."""
    return len(data) > SLICE and data.count(b"\n") > _MOST_LINES


class DeferredChunks:
    """Those of one connection."""

    __slots__ = ("_at", "_data", "misses_turn")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.misses_turn = False
        """Whether its turn came while the replica did not take what was decoded before."""

    def take(self) -> bytes:
        """The next slice, empty at the end."""
        start = self._at
        self._at = start + SLICE
        return self._data[start : self._at]

    def take_rest(self) -> bytes:
        return self._data[self._at :]

    @property
    def left(self) -> bool:
        return self._at < len(self._data)
