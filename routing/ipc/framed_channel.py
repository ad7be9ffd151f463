"""Framed channel: length-prefixed msgpack messages between two processes over a Unix socket pair.

Each message is a 4-byte big-endian length and that many bytes of msgpack.
"""

import asyncio
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import msgspec

M = TypeVar("M", bound=msgspec.Struct)

_LENGTH = struct.Struct(">I")
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_encoder = msgspec.msgpack.Encoder()


class FramedChannel(asyncio.Protocol, ABC, Generic[M]):
    """One end of the socket pair.

    ``on_message`` is called with each whole message, ``on_closed`` once when the other side is gone.
    """

    def __init__(self, on_message: Callable[[M], None], on_closed: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_closed = on_closed
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    @abstractmethod
    def decode(self, body: bytes) -> M:
        """Raises a msgspec error on what is no message."""

    def send(self, message: M) -> None:
        """Queue one message; dropped when the other side is gone."""
        if self._transport is None or self._transport.is_closing():
            return
        body = _encoder.encode(message)
        self._transport.write(_LENGTH.pack(len(body)) + body)

    @property
    def unsent_bytes(self) -> int:
        """That the other side has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_closed()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > MAX_MESSAGE_BYTES:
                raise ValueError(f"a control message of {length} bytes")
            end = _LENGTH.size + length
            if len(self._received) < end:
                return
            message = self.decode(memoryview(self._received)[_LENGTH.size : end].tobytes())
            del self._received[:end]
            self._on_message(message)
