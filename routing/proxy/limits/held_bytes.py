"""Held bytes (slowloris, slow read): connections for which bytes of one kind are held, and which is closed.

Theory. Such a connection uses memory for as long as its client wants. There are three kinds: a request head,
TLS handshake or PROXY header that has begun and is not complete; further requests behind one that is not
answered; a response that the client does not take. All of one kind together may hold ``most`` bytes. Beyond
that one of them is closed; a head is also closed when places for connections run low. The choice is among the
``LOOKED_AT`` connections that have held bytes longest: the one whose address has the most connections. So a
flood from one address ends its own connections first.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from routing.http.interfaces import Connection

LOOKED_AT = 32


class HeldBytes:
    """Those of one kind in one worker, the oldest first. Times are of ``time.monotonic()``."""

    __slots__ = ("_bytes", "_since", "held", "most")

    def __init__(self, most: int) -> None:
        self._since: dict[Connection, float] = {}
        self._bytes: dict[Connection, int] = {}
        self.held = 0
        """Bytes of all."""
        self.most = most

    def __len__(self) -> int:
        return len(self._since)

    @property
    def are_too_many(self) -> bool:
        return self.held > self.most

    def grow(self, connection: Connection, size: int, now: float) -> None:
        """So many more bytes are held."""
        self._since.setdefault(connection, now)
        self._bytes[connection] = self._bytes.get(connection, 0) + size
        self.held += size

    def put(self, connection: Connection, size: int, since: float) -> None:
        """So many bytes are held. ``since``: when its client was last seen to make progress."""
        if self._since.get(connection) != since:
            self._since.pop(connection, None)
            self._since[connection] = since
        self.held += size - self._bytes.get(connection, 0)
        self._bytes[connection] = size

    def size_of(self, connection: Connection) -> int:
        """Bytes held for it."""
        return self._bytes.get(connection, 0)

    def end(self, connection: Connection) -> None:
        """Nothing is held for it. May be said of any connection."""
        if self._since.pop(connection, None) is not None:
            self.held -= self._bytes.pop(connection)

    def oldest(
        self, before: float, weight: Callable[[Connection], int], but: Connection | None = None
    ) -> Connection | None:
        """The one that gives way first, of those that began, or made progress last, by ``before``.
        ``weight``: how many connections its address has."""
        found: Connection | None = None
        most = -1
        for connection, since in islice(self._since.items(), LOOKED_AT):
            if since > before:
                break
            size = weight(connection)
            if size > most and connection is not but:
                found, most = connection, size
        return found
