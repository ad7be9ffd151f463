"""Write tap: listeners also get what is written to a client during one exchange.

It replaces the connection's ``write`` and removes itself: when no listener wants more, or with the first
write after the exchange has ended. So connections without a listener pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

WriteListener = Callable[[bytes], bool]
"""Called with each piece before it is written; returns whether it wants to hear more."""


class _Connection(Protocol):
    """A client's connection. A protocol: :mod:`routing.http.client_lifecycle`, which implements it, makes
    taps, and the import contracts forbid a cycle even between types."""

    write: Callable[[bytes], None]

    @property
    def exchange(self) -> object: ...


class WriteTap:
    """Of one exchange. An existing tap of another exchange belongs to one that has ended."""

    __slots__ = ("_connection", "_listeners", "_write", "exchange")

    def __init__(self, connection: _Connection, exchange: object) -> None:
        write = connection.write
        self._write: Callable[[bytes], None] = write._write if isinstance(write, WriteTap) else write
        self._connection = connection
        self.exchange = exchange
        self._listeners: tuple[WriteListener, ...] = ()

    def add(self, listener: WriteListener) -> None:
        self._listeners = (*self._listeners, listener)

    def __call__(self, data: bytes) -> None:
        self._tell(data)
        self._write(data)

    def over(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Another way to write to the same client, which is heard as well."""

        def tapped(data: bytes) -> None:
            self._tell(data)
            write(data)

        return tapped

    def end(self) -> None:
        """Nobody is told any more."""
        self._listeners = ()
        self.exchange = None
        if self._connection.write is self:
            self._connection.write = self._write

    def _tell(self, data: bytes) -> None:
        if self._connection.exchange is not self.exchange:
            self.end()
            return
        for listener in self._listeners:
            if not listener(data):
                self._listeners = tuple(other for other in self._listeners if other is not listener)
        if not self._listeners:
            self.end()
