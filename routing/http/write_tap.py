"""Write tap: what is written to a client during one exchange, shown to a listener as well.

Stands in the connection's ``write`` and takes itself out again: when the listener has heard enough, or with
the first write after the exchange has ended. So who does not listen pays nothing.
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
    """Made while the exchange is going on. Whichever stood there before belonged to one that has ended."""

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
