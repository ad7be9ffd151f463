"""WebSocket frames (RFC 6455 §5.2): where one ends and the next begins, messages counted, texts collected.

The proxy forwards a tunnel's bytes as they come. It reads along to count messages, to find the tokens that a
replica reports in them, and to know whether a close frame of its own may be put between two frames.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

GOING_AWAY = 1001
POLICY_VIOLATION = 1008
"""Close codes (RFC 6455 §7.4.1)."""

LONGEST_TEXT = 1 << 18
"""Bytes of a text message that is collected. Longer ones are counted and not read."""
FREE_FRAMES = 256
BYTES_A_FRAME = 32
"""One read may hold so many frames, and one more for each so many bytes of it."""
_LONGEST_REASON = 123
_TEXT, _CONTROL = 1, 8
_FIN, _COMPRESSED, _MASKED = 0x80, 0x40, 0x80


class FrameReader:
    """One direction of a tunnel. What is no frame at all is read as if it were one; it does no harm."""

    __slots__ = (
        *("_collects", "_given_up", "_head", "_left", "_on_text", "_opcode", "_text", "_text_bytes"),
        "messages",
    )

    def __init__(self, on_text: Callable[[bytes], None] | None = None) -> None:
        """``on_text``: gets each whole text message that is neither masked, compressed nor too long."""
        self._on_text = on_text
        self._given_up = False
        self._head = b""
        """Of a frame whose head is not complete."""
        self._left = 0
        """Bytes of the present frame's payload that are still to come."""
        self._opcode = 0
        self._collects = False
        """Whether the present message is collected."""
        self._text: list[bytes] = []
        self._text_bytes = 0
        self.messages = 0
        """Complete messages so far, control frames not counted."""

    @property
    def between_frames(self) -> bool:
        """Whether nothing of a frame is still to come."""
        return not self._left and not self._head and not self._given_up

    def feed(self, data: bytes) -> None:
        """The next bytes of this direction.

        Reading along takes as long as there are frames. Of a flood of tiny ones, which would hold up the
        worker's other connections, no more is read: the rest of the direction is forwarded uncounted.
        """
        if self._given_up:
            return
        if self._head:
            data, self._head = self._head + data, b""
        position, length = 0, len(data)
        frames_left = FREE_FRAMES + length // BYTES_A_FRAME
        while position < length:
            if self._left:
                taken = min(self._left, length - position)
                self._payload(data[position : position + taken] if self._collects else b"", taken)
                position += taken
                continue
            begins = _frame_head(data, position)
            if begins is None:
                self._head = data[position:]
                return
            frames_left -= 1
            if frames_left < 0:
                self._give_up()
                return
            position = self._begin(data[position], data[position + 1], *begins)

    def _give_up(self) -> None:
        self._given_up = True
        self._text = []

    def _begin(self, first: int, second: int, position: int, payload: int) -> int:
        """A frame whose payload begins at ``position``."""
        opcode = first & 0x0F
        self._opcode = opcode | (first & _FIN)
        if 0 < opcode < _CONTROL:
            plain = opcode == _TEXT and not first & _COMPRESSED and not second & _MASKED
            self._collects = plain and self._on_text is not None
            self._text, self._text_bytes = [], 0
        self._left = payload
        if not payload:
            self._payload(b"", 0)
        return position

    def _payload(self, piece: bytes, taken: int) -> None:
        self._left -= taken
        opcode = self._opcode & 0x0F
        if opcode >= _CONTROL:
            return
        if self._collects:
            self._text_bytes += taken
            if self._text_bytes > LONGEST_TEXT:
                self._collects = False
                self._text = []
            else:
                self._text.append(piece)
        if not self._left and self._opcode & _FIN:
            self.messages += 1
            if self._collects and self._on_text is not None:
                text, self._text = b"".join(self._text), []
                self._on_text(text)


def _frame_head(data: bytes, position: int) -> tuple[int, int] | None:
    """Where the payload begins, and its length. ``None``: the head is not complete."""
    if len(data) < position + 2:
        return None
    second = data[position + 1]
    size = second & 0x7F
    begins = position + 2 + (2 if size == 126 else 8 if size == 127 else 0) + (4 if second & _MASKED else 0)
    if len(data) < begins:
        return None
    if size == 126:
        size = int.from_bytes(data[position + 2 : position + 4], "big")
    elif size == 127:
        size = int.from_bytes(data[position + 2 : position + 10], "big")
    return begins, size


def close_frame(code: int, reason: str) -> bytes:
    """A server's close frame; of the reason as much as fits."""
    words = reason.encode()[:_LONGEST_REASON].decode(errors="ignore").encode()
    return bytes((_FIN | _CONTROL, 2 + len(words))) + code.to_bytes(2, "big") + words


class Usage(NamedTuple):
    """Tokens that a message reports."""

    prompt: int
    output: int


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Response(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    """``response.done`` of the Realtime API, ``response.completed`` of the Responses API, or any message with
    a usage of its own."""

    response: _Response | None = None
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Event).decode


def usage_of(text: bytes) -> Usage | None:
    """What a text message of a server of the OpenAI protocol reports; ``None``: nothing."""
    if text.find(b'"usage"') < 0:
        return None
    try:
        event = _decode(text)
    except DECODE_ERRORS:
        return None
    usage = event.usage or (event.response.usage if event.response is not None else None)
    if usage is None:
        return None
    prompt = max(0, usage.input_tokens or usage.prompt_tokens)
    output = max(0, usage.output_tokens or usage.completion_tokens)
    return Usage(prompt, output) if prompt or output else None
