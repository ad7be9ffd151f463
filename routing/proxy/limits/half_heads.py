"""Half heads (slowloris): connections whose request head, or TLS handshake, has begun and is not complete.

Theory. Such a connection has asked for nothing yet, and holds a place and up to 64 KiB of a head. While there
are places enough, only its time limit ends it. When they run low the one that began first gives way.
All half heads together may hold ``MOST_BYTES``; beyond that the oldest gives way as well. Of the
``LOOKED_AT`` oldest it is one of the address that has the most connections, so that a flood from one address
ends its own first.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from routing.http.interfaces import Connection

MOST_BYTES = 16 << 20
LOOKED_AT = 32


class HalfHeads:
    """Those of one worker, the oldest first. Times are of ``time.monotonic()``."""

    __slots__ = ("_bytes", "_since", "held")

    def __init__(self) -> None:
        self._since: dict[Connection, float] = {}
        self._bytes: dict[Connection, int] = {}
        self.held = 0
        """Bytes of half heads."""

    def __len__(self) -> int:
        return len(self._since)

    def grow(self, connection: Connection, size: int, now: float) -> bool:
        """So many more bytes of a head are held, which is not complete; whether those of all are too many."""
        self._since.setdefault(connection, now)
        self._bytes[connection] = self._bytes.get(connection, 0) + size
        self.held += size
        return self.held > MOST_BYTES

    def end(self, connection: Connection) -> None:
        """It is complete, or nothing more of it is awaited. May be said of any connection."""
        if self._since.pop(connection, None) is not None:
            self.held -= self._bytes.pop(connection, 0)

    def oldest(
        self, before: float, groups: Mapping[Connection, str], sizes: Mapping[str, int], but: Connection
    ) -> Connection | None:
        """The one that gives way first, of those begun by ``before``. ``groups``: the address of each;
        ``sizes``: how many connections an address has."""
        found: Connection | None = None
        most = -1
        for connection, since in islice(self._since.items(), LOOKED_AT):
            if since > before:
                break
            size = sizes.get(groups.get(connection, ""), 0)
            if size > most and connection is not but:
                found, most = connection, size
        return found
