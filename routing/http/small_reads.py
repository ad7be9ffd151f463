"""Small reads: what comes on a transport is read in pieces of a few KiB, so that little of it is ever held.

The loop reads up to 256 kB at once. A protocol that gives the buffer itself decides how much it is.
"""

from __future__ import annotations

import asyncio

SMALL_BYTES = 16_384
_BUFFER = bytearray(SMALL_BYTES)
"""For all: what was read is copied at once."""
_VIEW = memoryview(_BUFFER)


class SmallReads(asyncio.BufferedProtocol):
    """Stands before a protocol, which notices nothing."""

    __slots__ = ("_above",)

    def __init__(self, above: asyncio.Protocol) -> None:
        self._above = above

    def get_buffer(self, sizehint: int) -> memoryview:
        return _VIEW

    def buffer_updated(self, nbytes: int) -> None:
        self._above.data_received(bytes(_VIEW[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()
