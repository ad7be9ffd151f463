"""Write tap: a listener also gets what is written to a client during one exchange.

It replaces the connection's ``write`` and removes itself: when the listener has enough, or with the first
write after the exchange has ended. So connections without a listener pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

WriteListener = Callable[[bytes], bool]
"""Called with each piece before it is written; returns whether it wants to hear more."""


class _Connection(Protocol):
    write: Callable[[bytes], None]

    @property
    def exchange(self) -> object: ...


class WriteTap:
    """Made while the exchange is going on. An existing tap belongs to an exchange that has ended."""

    __slots__ = ("_connection", "_exchange", "_listener", "_write")

    def __init__(self, connection: _Connection, listener: WriteListener) -> None:
        write = connection.write
        self._write: Callable[[bytes], None] = write._write if isinstance(write, WriteTap) else write
        self._connection = connection
        self._exchange = connection.exchange
        self._listener = listener

    def __call__(self, data: bytes) -> None:
        connection = self._connection
        if connection.exchange is not self._exchange or not self._listener(data):
            self._exchange = None
            if connection.write is self:
                connection.write = self._write
        self._write(data)
