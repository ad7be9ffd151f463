"""Sent tail: the last bytes of an event stream that the client has got, and whether they are its end.

They are kept as they were sent, chunks and all, by reference: an event costs one more entry in a list. They
are read only when the stream ends, or breaks.
"""

from __future__ import annotations

from itertools import accumulate

from routing.http.chunked import decode_chunks, encode_chunk
from routing.protocols.openai_body import is_encoded
from routing.protocols.stream_end import TAIL_BYTES, StreamEnd, end_of, follows, has_last_event

_SHORTEN_AT = 64
"""Pieces. Most streams have one event in each."""
_LARGE = 16_384
"""Of a piece of more bytes only the tail is kept."""


def tail_of(mark: bytes, protocol: str, status: int, block: bytes, chunks: bool) -> SentTail | None:
    """For a response that may be an event stream with this head, to a call with this mark; ``None``: nothing
    is known of its end. ``protocol``: of the fleet. ``chunks``: whether it is sent in chunks."""
    if protocol != "openai" or status != 200 or not follows(mark):
        return None
    return SentTail(mark, block, chunks)


class SentTail:
    """Of one stream. It is fed what is sent, in order."""

    __slots__ = ("_block", "_chunks", "_cut", "_most", "_pieces", "_shorten_at", "mark")

    def __init__(self, mark: bytes, block: bytes, chunks: bool, most: int = _SHORTEN_AT) -> None:
        """``most``: pieces that are kept before it is shortened."""
        self.mark = mark
        self._block = block
        self._chunks = chunks
        self._pieces: list[bytes] = []
        self._cut = False
        self._shorten_at = self._most = most

    def keep(self, piece: bytes) -> None:
        """The next bytes; if the stream is sent in chunks, these are whole chunks."""
        pieces = self._pieces
        pieces.append(piece)
        if len(piece) > _LARGE:
            pieces[-1] = self._tail_of(piece)
        if len(pieces) > self._shorten_at:
            self._shorten()

    def keep_all(self, pieces: list[bytes]) -> None:
        """As :meth:`keep`, of several at once."""
        kept = self._pieces
        kept += pieces
        if len(kept) > self._shorten_at:
            self._shorten()

    @property
    def is_readable(self) -> bool:
        """Whether its bytes are text, not encoded."""
        return not is_encoded(self._block)

    def text(self) -> bytes:
        """The tail, without chunks."""
        sent = b"".join(self._pieces)
        return decode_chunks(sent) if self._chunks else sent

    def end(self, last: bytes = b"") -> StreamEnd:
        """How the stream ends. ``last``: what is still to be sent of it, without chunks."""
        mark = self.mark
        if (last and has_last_event(mark, last)) or (
            self._pieces and has_last_event(mark, self._pieces[-1][-TAIL_BYTES[mark] :])
        ):
            return StreamEnd.DONE
        return end_of(mark, self.text() + last, self._cut) if self.is_readable else StreamEnd.UNKNOWN

    def _tail_of(self, piece: bytes) -> bytes:
        self._cut = True
        if not self._chunks:
            return piece[-TAIL_BYTES[self.mark] :]
        return encode_chunk(decode_chunks(piece)[-TAIL_BYTES[self.mark] :])

    def _shorten(self) -> None:
        """Keep what is needed, of the end."""
        pieces, most = self._pieces, TAIL_BYTES[self.mark]
        for number, size in enumerate(accumulate(len(piece) for piece in reversed(pieces)), 1):
            if size >= most:
                self._cut = self._cut or number < len(pieces)
                del pieces[:-number]
                break
        if len(pieces[0]) > _LARGE:
            pieces[0] = self._tail_of(pieces[0])
        self._shorten_at = max(self._most, 2 * len(pieces))
