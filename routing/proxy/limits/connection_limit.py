"""Connection limit: how many clients one worker accepts, and which connection is closed over the limit.

Theory. At the limit a new connection evicts the one that has been idle longest: nothing is in flight on it
and no request has begun, so it is closed as after its keep-alive timeout. If none has been idle for
``IDLE_S``, the new one gets a 503 and is closed. Either way no connection is left waiting in the accept
queue.

A connection that is closing still holds its descriptor until the client has closed too. So at most
``MAX_CLOSING`` connections may be closing at a time: beyond that those that have been closing longest are
aborted.

A connection is one too many over the limit, or when file descriptors run short, whatever uses them. The
kernel assigns the lowest free number, so a connection's own number is a lower bound for how many are in use.
Reading that number costs a socket object and system calls. So while numbers are below half of the limit, only
every eighth connection is checked: those between them cannot use up the other half.
"""

from __future__ import annotations

import sys
from collections import deque
from heapq import nsmallest
from operator import itemgetter
from time import monotonic

from routing.http.interfaces import Connection
from routing.http.local_response import response_bytes
from routing.ipc.descriptors import RESERVED_FREE
from routing.protocols.errors import error_content

IDLE_S = 1.0
"""A connection that has been idle for less is likely to be used in a moment."""
MAX_CLOSING = 16
SEARCH_EVERY_S = 0.1
"""All connections are searched for idle ones at most this often."""
FOUND_AT_ONCE = 256
UNASKED = 7
"""Connections in a row whose descriptor is not checked, while there are plenty of descriptors."""
REMEMBERED_S = 3.0
"""After a refusal, the worker counts as refusing connections for this long."""


def _refusal() -> bytes:
    words = "the proxy has reached its connection limit; try again"
    content_type, body = error_content("generic", 503, "too_many_connections", words)
    return response_bytes(503, content_type, body, fields=b"\r\nRetry-After: 1", close=True)


REFUSAL = _refusal()
"""The whole response to a connection over the limit."""


class ConnectionLimit:
    """The connection limit of one worker. Called for every connection that is accepted or closed."""

    __slots__ = (
        "_closing",
        "_closing_order",
        "_connections",
        "_highest",
        "_idle",
        "_passing",
        "_searched_at",
        "_unasked",
        "evicted",
        "most",
        "refused",
        "refused_at",
    )

    def __init__(self) -> None:
        self._connections: set[Connection] = set()
        """All that are open, with TLS also those whose handshake is not complete."""
        self._passing = -1
        """Descriptor of a handshake that has just succeeded; −1: none."""
        self.most = sys.maxsize
        """The limit: connections at one time."""
        self._highest = sys.maxsize
        """Highest descriptor number that a client's connection may have."""
        self._unasked = 0
        """How many of the next connections are not checked for their descriptor."""
        self.refused = 0
        self.evicted = 0
        """Idle ones that were closed to make room."""
        self.refused_at = -REMEMBERED_S
        """``time.monotonic()`` of the last refusal."""
        self._idle: list[tuple[float, Connection]] = []
        """Idle since when, and which; from the last search. The one that has been idle longest comes last."""
        self._searched_at = 0.0
        self._closing: dict[Connection, bool] = {}
        """Closed by this limit and not yet gone. False: its refusal is counted when it is aborted."""
        self._closing_order: deque[Connection] = deque()
        """Those of them that are not aborted yet, the oldest first."""

    def set(self, most: int, descriptors: int) -> None:
        """Set the limit. ``descriptors``: how many the process may have."""
        self.most = most
        self._highest = descriptors - RESERVED_FREE
        self._unasked = 0

    def on_accept(self, connection: Connection) -> None:
        """A connection was accepted. If it is one too many, an idle one is closed, or this one."""
        self._connections.add(connection)
        passing, self._passing = self._passing, -1
        if passing >= 0 and connection.descriptor == passing:
            return
        open_count = len(self._connections) - len(self._closing)
        if open_count > self.most or self._runs_short(connection):
            self._make_room(connection)

    def on_handshake_done(self, handshake: Connection) -> None:
        """A TLS handshake has succeeded. Its client connection, which comes next, takes over its slot."""
        if handshake not in self._closing:
            self._passing = handshake.descriptor
        self.on_close(handshake)

    def on_close(self, connection: Connection) -> None:
        """A connection has been closed."""
        self._connections.discard(connection)
        self._closing.pop(connection, None)

    def _runs_short(self, connection: Connection) -> bool:
        """Whether its descriptor is one of the last, if it is checked."""
        if self._unasked:
            self._unasked -= 1
            return False
        descriptor = connection.descriptor
        if descriptor < self._highest // 2:
            self._unasked = UNASKED
        return descriptor > self._highest

    def _make_room(self, connection: Connection) -> None:
        now = monotonic()
        idle = self._longest_idle(now, connection)
        if idle is not None:
            self.evicted += 1
            idle.close_if_idle()
            self._close(idle, refusal_sent=True)
            return
        refusal_sent = connection.reject(REFUSAL)
        if refusal_sent:
            self.refuse_one(now)
        self._close(connection, refusal_sent)

    def refuse_one(self, now: float) -> None:
        """Count a refusal."""
        self.refused += 1
        self.refused_at = now

    def refusing(self, now: float) -> bool:
        """Whether connections have been refused within the last ``REMEMBERED_S``."""
        return now - self.refused_at < REMEMBERED_S

    def _longest_idle(self, now: float, but: Connection) -> Connection | None:
        if not self._idle and now - self._searched_at >= SEARCH_EVERY_S:
            self._searched_at = now
            idle = ((since, one) for one in self._connections if (since := one.idle_since) is not None)
            long = (entry for entry in idle if now - entry[0] >= IDLE_S)
            self._idle = nsmallest(FOUND_AT_ONCE, long, key=itemgetter(0))[::-1]
        while self._idle:
            since, one = self._idle.pop()
            # It may have been used or closed since the search.
            if one is not but and one in self._connections and one.idle_since == since:
                return one
        return None

    def _close(self, connection: Connection, refusal_sent: bool) -> None:
        self._closing[connection] = refusal_sent
        self._closing_order.append(connection)
        while len(self._closing_order) > MAX_CLOSING:
            oldest = self._closing_order.popleft()
            if oldest in self._closing:
                if not self._closing[oldest]:
                    self.refuse_one(monotonic())
                oldest.abort()
