"""Chunked transfer coding (RFC 9112 §7.1), read strictly; extensions and trailers are checked and dropped.

Rules: a size is 1 to 16 hexadecimal digits; every line ends in CRLF; extensions are tokens and quoted
strings; no line is longer than ``MAX_LINE``; trailers together are no longer than ``MAX_TRAILERS``, long size
lines together no longer than ``MAX_EXTENSIONS``, so that no sender can make the proxy read much for little
payload.

States: reading a size line, a chunk's data, the CRLF after it, or the trailer section.
"""

import re
from math import inf
from typing import Final

from routing.http.errors import BadChunk
from routing.http.syntax import FIELD_LINE, TEXT, TOKEN

MAX_LINE: Final = 1024
MAX_TRAILERS: Final = 8192
MAX_EXTENSIONS: Final = 16_384
LAST_CHUNK: Final = b"0\r\n\r\n"

_QUOTED: Final = rb'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\' + TEXT + rb')*"'
_SIZE_LINE: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16}+)(?:[ \t]*+;[ \t]*+"
    + TOKEN
    + rb"++(?:[ \t]*+=[ \t]*+(?:"
    + TOKEN
    + rb"++|"
    + _QUOTED
    + rb"))?)*\Z"
)
size_lines: dict[int, bytes] = {}
"""Length of a whole chunk, framing and all → the line that one of that length began with, its CRLF included:
digits alone, with no needless zero, never a last chunk's. Servers that stream write each event as one chunk
and in one segment: such a chunk is recognised by its length, this line, and the CRLF at its end."""
_whole: dict[bytes, int] = {}
"""The other way round: a size's line → the length of the whole chunk."""
_MOST_KNOWN: Final = 4096
_LONGEST_KNOWN: Final = 8192
"""Longer ones would gain little, and code that keeps passed chunks keeps no more than this of each."""
_LONGEST_SIZE: Final = 16
_TINY: Final = 8
MOST_TINY: Final = 4096
"""Chunks of less than ``_TINY`` bytes in one request. Each takes as long to read as one of kilobytes, so that
a few connections with nothing else would hold up all others."""
_FRAMING: Final = 4
"""Bytes of a chunk beside its size line's text and its data: two line ends."""
_LONGEST_TINY: Final = len(b"7") + _FRAMING + _TINY - 1
"""Bytes of such a chunk with its framing."""
_CR: Final = 13
_LF: Final = 10
_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILERS: Final = 3
_DONE: Final = 4


def encode_chunk(piece: bytes) -> bytes:
    """One chunk that holds ``piece``, which must not be empty."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def are_whole_chunks(data: bytes) -> bool:
    """Whether this is nothing but whole chunks, more than one, whose sizes' lines are known."""
    end = len(data)
    stop = 0
    while stop < end:
        begin = _after_line(data, stop)
        length = _whole.get(data[stop:begin]) if begin else None
        if length is None:
            return False
        stop += length
        if stop > end or data[stop - 2] != _CR or data[stop - 1] != _LF:
            return False
    return stop == end


def decode_chunks(chunks: bytes) -> bytes:
    """The data of whole chunks."""
    return ChunkedDecoder().feed(chunks)


def _after_line(data: bytes, position: int) -> int:
    """Behind the line that begins at this position; 0: it does not end within a size's digits. By index:
    compiled, chunks are found with a third of the instructions that calls of ``find`` took."""
    stop = min(position + _LONGEST_SIZE, len(data))
    while position < stop:
        if data[position] == _LF:
            return position + 1
        position += 1
    return 0


def _take_known(data: bytes, pieces: list[bytes]) -> int:
    """Append the data of whole chunks that ``data`` begins with, as far as their sizes' lines are known and
    they are not tiny; returns where the next one begins. As reading them line by line, at a third of the
    time."""
    position = 0
    end = len(data)
    while True:
        begin = _after_line(data, position)
        length = _whole.get(data[position:begin]) if begin else None
        if length is None or length <= _LONGEST_TINY or position + length > end:
            return position
        stop = position + length
        if data[stop - 2] != _CR or data[stop - 1] != _LF:
            return position
        pieces.append(data[begin : stop - 2])
        position = stop


class ChunkedDecoder:
    """Feed bytes as they arrive; get the payload. After the end ``rest`` holds the bytes that follow the
    body."""

    __slots__ = ("_extension_bytes", "_line", "_remaining", "_state", "_tiny_left", "_trailer_bytes", "rest")

    def __init__(self, most_tiny: float = inf) -> None:
        """``most_tiny``: how many chunks of next to nothing may come; servers may stream as they like."""
        self._tiny_left = most_tiny
        self._state = _SIZE
        self._remaining = 0
        self._line = b""
        self._trailer_bytes = 0
        self._extension_bytes = 0
        self.rest = b""

    @property
    def done(self) -> bool:
        return self._state == _DONE

    @property
    def between_chunks(self) -> bool:
        """Whether the next byte is the first of a chunk. What :data:`size_lines` knows then passes whole."""
        return self._state == _SIZE and not self._line

    def feed(self, data: bytes) -> bytes:
        """Payload bytes in ``data``, maybe none. Raises :class:`BadChunk`."""
        pieces: list[bytes] = []
        position = 0
        length = len(data)
        if self._state == _SIZE and not self._line:
            position = _take_known(data, pieces)
            if length - position == len(LAST_CHUNK) and data.endswith(LAST_CHUNK):
                self._state = _DONE
                position = length
        while position < length:
            if self._state == _DATA:
                piece = data[position : position + self._remaining]
                pieces.append(piece)
                position += len(piece)
                self._remaining -= len(piece)
                if not self._remaining:
                    self._state = _DATA_END
            elif self._state == _DONE:
                self.rest = data[position:]
                break
            else:
                position = self._read_line(data, position)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_line(self, data: bytes, position: int) -> int:
        newline = data.find(b"\n", position, position + MAX_LINE)
        if newline < 0:
            self._line += data[position : position + MAX_LINE]
            self._check_partial()
            return len(data)
        line = self._line + data[position : newline + 1]
        self._line = b""
        if len(line) > MAX_LINE:
            raise BadChunk("a line of the chunked body is too long")
        if not line.endswith(b"\r\n"):
            raise BadChunk("a line of the chunked body does not end in CRLF")
        self._take_line(line[:-2])
        return newline + 1

    def _check_partial(self) -> None:
        """Checks that are possible on an incomplete line."""
        if len(self._line) >= MAX_LINE:
            raise BadChunk("a line of the chunked body is too long")
        if self._state == _DATA_END and self._line not in (b"", b"\r"):
            raise BadChunk("chunk data is longer than its size said")
        if b"\r" in self._line[:-1]:
            raise BadChunk("a line of the chunked body holds a bare CR")

    def _take_line(self, line: bytes) -> None:
        if self._state == _DATA_END:
            if line:
                raise BadChunk("chunk data is longer than its size said")
            self._state = _SIZE
        elif self._state == _SIZE:
            matched = _SIZE_LINE.match(line)
            if matched is None:
                raise BadChunk("a chunk does not begin with a hexadecimal size")
            self._remaining = size = int(matched[1], 16)
            self._state = _DATA if size else _TRAILERS
            if size < _TINY:
                self._tiny_left -= 1
                if self._tiny_left < 0:
                    raise BadChunk("the body has thousands of chunks of next to nothing")
            if len(line) > _LONGEST_SIZE:
                self._count_extension(line)
            elif size and len(line) == len(b"%x" % size):
                length = len(line) + size + _FRAMING
                if length in size_lines or (length <= _LONGEST_KNOWN and len(size_lines) < _MOST_KNOWN):
                    size_lines[length] = line + b"\r\n"
                    _whole[line + b"\r\n"] = length
        elif not line:
            self._state = _DONE
        else:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_TRAILERS or FIELD_LINE.match(line) is None:
                raise BadChunk("the trailer section is not valid or too long")

    def _count_extension(self, line: bytes) -> None:
        """RFC 9112 §7.1.1: their total length in one message ought to be limited."""
        self._extension_bytes += len(line)
        if self._extension_bytes > MAX_EXTENSIONS:
            raise BadChunk("the chunk extensions are too long together")
