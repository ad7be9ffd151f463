"""Silent connections (connection flood): those from which nothing has come yet, and which of them gives way.

Theory. A regular client opens some of its connections a moment before it needs them: a browser's preconnect,
a pool. There are few of these at a time, and a flood is told by its number. So silent connections give way
while they are more than one in ``PART`` of all that are open: first the oldest of an address that has more
than ``SHARE`` of them, then the oldest of all. One whose first bytes lie unread in the kernel is not silent.

They are looked for only when places run low, so that a connection costs nothing more before. A search goes
through all connections. The time until the next one grows with their number, so that searching takes some
percent of a worker's time at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

from routing.http.interfaces import Connection
from routing.http.unread_bytes import has_unread

PART = 8
SHARE = 0.25
SEARCH_S_EACH = 10e-6
"""Per connection, between two searches."""

_Found = list[tuple[float, Connection]]


class SilentConnections:
    """Those of one worker. Times are of ``time.monotonic()``."""

    __slots__ = ("_crowd", "_others", "_search_at")

    def __init__(self) -> None:
        self._crowd: _Found = []
        """From the last search, those of addresses that have many; the oldest is the last."""
        self._others: _Found = []
        self._search_at = 0.0
        """When the next search is due."""

    def take_oldest(
        self,
        connections: Mapping[Connection, str],
        closing: Container[Connection],
        now: float,
        before: float,
        but: Connection,
    ) -> Connection | None:
        """The one that gives way, of those that were accepted by ``before``; ``None``: there are not many, or
        none is that old. ``connections``: all that are open, the oldest first, and the address that each
        counts for. ``closing``: those of them that have given way."""
        if now >= self._search_at:
            self._search(connections, closing)
            self._search_at = now + SEARCH_S_EACH * len(connections)
        for found in (self._crowd, self._others):
            while found and len(self._crowd) + len(self._others) > len(connections) // PART:
                since, connection = found[-1]
                if since > before:
                    break
                found.pop()
                # It may have been used or closed since the search.
                if (
                    connection is not but
                    and connection in connections
                    and connection.silent_since == since
                    and not has_unread(connection.descriptor)
                ):
                    return connection
        return None

    def _search(self, connections: Mapping[Connection, str], closing: Container[Connection]) -> None:
        silent = [
            (since, one, group)
            for one, group in connections.items()
            if (since := one.silent_since) is not None and one not in closing
        ]
        sizes = Counter(group for _, _, group in silent if group)
        crowds = {group for group, size in sizes.items() if size > SHARE * len(silent)}
        silent.reverse()
        self._crowd = [(since, one) for since, one, group in silent if group in crowds]
        self._others = [(since, one) for since, one, group in silent if group not in crowds]
