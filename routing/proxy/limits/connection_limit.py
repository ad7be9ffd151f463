"""Connection limit: how many clients one worker accepts, and which connection is closed over the limit.

Theory. At the limit a new connection evicts another, the first of these that there is:

1. one that was accepted ``PENDING_S`` ago and from which nothing has come yet, if there are many of these;
2. one whose request head, TLS handshake or PROXY header has begun ``PENDING_S`` ago and is not complete;
3. the one that has been idle longest, for ``IDLE_S`` at least: nothing is in flight on it and no request has
   begun, so it is closed as after its keep-alive timeout;
4. one whose client has hardly taken or sent anything for ``SLOW_S`` at least. It is one of the address that
   has the most connections, and there the one that has been slow for longest;
5. any other from which nothing has come yet, if there are many, or whose head is not complete.

:mod:`routing.proxy.limits.silent_connections` chooses among the silent ones, and says how many are many.
:mod:`routing.proxy.limits.held_bytes` chooses among those whose head is not complete.

If there is none, the new one gets a 503 and is closed. Either way no connection is left waiting in the accept
queue.

When only the last quarter of all places is free, a new connection already replaces one whose head began
``IDLE_S`` ago and is not complete, or a silent one of that age, if there are many. If there is none, one
address is limited: the one with the most connections, if it has more than its ``SHARE`` of all places. Its
new connection replaces an idle or slow one of the same address; if there is none, it is refused.
While more places are free, an address may have any number, because many clients may share one. Addresses of
trusted proxies have no such limit.

A worker is short of places when a connection is refused or displaced: closed for another, though it was not
idle between two requests. A flood that only displaces its own is seen so as well.

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
from collections import Counter, deque
from collections.abc import Callable
from heapq import nsmallest
from operator import itemgetter
from time import monotonic

from routing.http.interfaces import Connection
from routing.http.local_response import response_bytes
from routing.ipc.descriptors import RESERVED_FREE
from routing.protocols.errors import error_content
from routing.proxy.limits.held_bytes import HeldBytes
from routing.proxy.limits.silent_connections import SilentConnections

IDLE_S = 1.0
"""A connection that has been idle for less is likely to be used in a moment."""
PENDING_S = 0.1
SLOW_S = 1.0
LOW_PART = 4
SHARE = 0.25
HEAD_BYTES = 16 << 20
"""All half heads together hold so many bytes."""
PIPELINED_BYTES = 32 << 20
"""So many hold all further requests of those clients that have sent more than one connection is to hold."""
MAX_CLOSING = 16
SEARCH_EVERY_S = 0.1
"""All connections are searched for idle ones, or for slow ones, at most this often."""
SILENT, HALF_HEAD, SLOW, PIPELINED = "silent", "half_head", "slow_client", "pipelined"
OVER_SHARE = "address_share"
"""Reasons, as they are counted: the first four gave way, of the last a new connection was refused."""
FOUND_AT_ONCE = 256
UNASKED = 7
"""Connections in a row whose descriptor is not checked, while there are plenty of descriptors."""
REMEMBERED_S = 3.0
"""After one was refused or displaced, the worker counts as short of places for this long."""


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
        "_group_sizes",
        "_highest",
        "_idle",
        "_passing",
        "_passing_group",
        "_plenty",
        "_silent",
        "_slow",
        "_unasked",
        "acts",
        "displaced",
        "evicted",
        "heads",
        "most",
        "pipelined",
        "refused",
        "short_at",
    )

    def __init__(self) -> None:
        self._connections: dict[Connection, str] = {}
        """All that are open, also those whose TLS handshake or PROXY header is not complete, and the address
        that each counts for; empty: for none."""
        self._group_sizes: Counter[str] = Counter()
        """Connections of each address."""
        self.heads = HeldBytes(HEAD_BYTES)
        self.pipelined = HeldBytes(PIPELINED_BYTES)
        self.acts: Counter[str] = Counter()
        """How often something but an idle connection made room, and what was refused for its address."""
        self._passing = -1
        """Descriptor of a handshake that has just succeeded; −1: none."""
        self._passing_group = ""
        """The address that it counted for."""
        self.most = sys.maxsize
        """The limit: connections at one time."""
        self._plenty = sys.maxsize
        """With more, places run low."""
        self._highest = sys.maxsize
        """Highest descriptor number that a client's connection may have."""
        self._unasked = 0
        """How many of the next connections are not checked for their descriptor."""
        self.refused = 0
        self.evicted = 0
        """Idle ones that were closed to make room."""
        self.displaced = 0
        """Others that were closed to make room."""
        self.short_at = -REMEMBERED_S
        """``time.monotonic()`` of when one was last refused or displaced."""
        self._idle = _Search(lambda connection: connection.idle_since, lambda connection: 0)
        self._silent = SilentConnections()
        self._slow = _Search(lambda connection: connection.slow_since, self.neighbours)
        self._closing: dict[Connection, bool] = {}
        """Closed by this limit and not yet gone. False: its refusal is counted when it is aborted."""
        self._closing_order: deque[Connection] = deque()
        """Those of them that are not aborted yet, the oldest first."""

    def set(self, most: int, descriptors: int) -> None:
        """Set the limit. ``descriptors``: how many the process may have."""
        self.most = most
        self._plenty = most - most // LOW_PART
        self._highest = descriptors - RESERVED_FREE
        self._unasked = 0

    def on_accept(self, connection: Connection, group: str = "", shares: bool = True) -> None:
        """A connection was accepted. If it is one too many, another one is closed, or this one. ``group``:
        the address that it counts for. ``shares``: whether that may be refused for having many."""
        self._connections[connection] = group
        if group:
            self._group_sizes[group] += 1
        passing, self._passing = self._passing, -1
        has_place = passing >= 0 and connection.descriptor == passing
        if has_place and group == self._passing_group:
            return
        open_count = len(self._connections) - len(self._closing)
        if not has_place and (open_count > self.most or self._runs_short(connection)):
            self._make_room(connection)
        elif open_count > self._plenty:
            self._keep_some_free(connection, group if shares else "")

    def on_handshake_done(self, handshake: Connection) -> None:
        """A TLS handshake has succeeded. Its client connection, which comes next, takes over its slot."""
        if handshake not in self._closing:
            self._passing = handshake.descriptor
            self._passing_group = self._connections.get(handshake, "")
        self.on_close(handshake)

    def on_close(self, connection: Connection) -> None:
        """A connection has been closed."""
        group = self._connections.pop(connection, "")
        if group:
            left = self._group_sizes[group] = self._group_sizes[group] - 1
            if not left:
                del self._group_sizes[group]
        self.heads.end(connection)
        self.pipelined.end(connection)
        self._closing.pop(connection, None)

    def on_half_head(self, connection: Connection, size: int) -> None:
        """So many more bytes of a head have come, which is not complete."""
        now = monotonic()
        self.heads.grow(connection, size, now)
        if self.heads.are_too_many:
            self._evict_head(now, connection)

    def on_pipelined(self, connection: Connection, size: int) -> None:
        """So many bytes of further requests are held for it: more than are to be; 0: no longer."""
        held = self.pipelined
        if not size:
            held.end(connection)
            return
        now = monotonic()
        held.grow(connection, size - held.size_of(connection), now)
        while held.are_too_many and (found := held.oldest(now, self.neighbours, connection)) is not None:
            held.end(found)
            self.acts[PIPELINED] += 1
            found.give_way(REFUSAL)

    def neighbours(self, connection: Connection) -> int:
        """How many connections its address has; 0: it counts for none."""
        return self._group_sizes.get(self._connections.get(connection, ""), 0)

    def _runs_short(self, connection: Connection) -> bool:
        """Whether its descriptor is one of the last, if it is checked."""
        if self._unasked:
            self._unasked -= 1
            return False
        descriptor = connection.descriptor
        if descriptor < self._highest // 2:
            self._unasked = UNASKED
        return descriptor > self._highest

    def _keep_some_free(self, connection: Connection, group: str) -> None:
        """Places run low."""
        now = monotonic()
        if self._evict_pending(now, now - IDLE_S, connection):
            return
        if group and self._has_most(group) and not self._evict(connection, group):
            self.acts[OVER_SHARE] += 1
            self._turn_away(connection, now)

    def _has_most(self, group: str) -> bool:
        """Whether this address has more than its share, and than any other."""
        sizes = self._group_sizes
        size = sizes[group]
        # Few addresses can have so many, so that the largest is seldom looked for.
        return size > self.most * SHARE and len(sizes) > 1 and size >= max(sizes.values())

    def _make_room(self, connection: Connection) -> None:
        now = monotonic()
        if (
            not self._evict_pending(now, now - PENDING_S, connection)
            and not self._evict(connection)
            and not self._evict_pending(now, now, connection)
        ):
            self._turn_away(connection, now)

    def _turn_away(self, connection: Connection, now: float) -> None:
        refusal_sent = connection.reject(REFUSAL)
        if refusal_sent:
            self.refuse_one(now)
        self._close(connection, refusal_sent)

    def _evict_pending(self, now: float, before: float, but: Connection) -> bool:
        """Close a silent connection, or one whose head is incomplete, that began by ``before``. False: there
        is none."""
        silent = self._silent.take_oldest(self._connections, self._closing, now, before, but)
        if silent is not None:
            self.acts[SILENT] += 1
            silent.close_if_idle()
            self._close(silent, refusal_sent=True)
        elif not self._evict_head(before, but):
            return False
        self._displace_one(now)
        return True

    def _evict_head(self, before: float, but: Connection) -> bool:
        """Close the connection whose head began first, not after ``before``. False: there is none."""
        found = self.heads.oldest(before, self.neighbours, but)
        if found is None:
            return False
        self.acts[HALF_HEAD] += 1
        found.give_way(REFUSAL)
        self._close(found, refusal_sent=True)
        return True

    def _evict(self, but: Connection, group: str = "") -> bool:
        """Close an idle or a slow connection, if there is one. ``group``: of this address alone."""

        def may_go(connection: Connection) -> bool:
            return connection is not but and (not group or self._connections.get(connection) == group)

        now = monotonic()
        idle = self._idle.longest(self._connections, now, IDLE_S, may_go)
        if idle is not None:
            self.evicted += 1
            idle.close_if_idle()
            self._close(idle, refusal_sent=True)
            return True
        slow = self._slow.longest(self._connections, now, SLOW_S, may_go)
        if slow is not None:
            self.acts[SLOW] += 1
            slow.give_way(REFUSAL)
            self._close(slow, refusal_sent=True)
            self._displace_one(now)
            return True
        return False

    def refuse_one(self, now: float) -> None:
        """Count a refusal."""
        self.refused += 1
        self.short_at = now

    def _displace_one(self, now: float) -> None:
        self.displaced += 1
        self.short_at = now

    def is_short(self, now: float) -> bool:
        """Whether connections have been refused or displaced within the last ``REMEMBERED_S``."""
        return now - self.short_at < REMEMBERED_S

    def _close(self, connection: Connection, refusal_sent: bool) -> None:
        self.heads.end(connection)
        self._closing[connection] = refusal_sent
        self._closing_order.append(connection)
        while len(self._closing_order) > MAX_CLOSING:
            oldest = self._closing_order.popleft()
            if oldest in self._closing:
                if not self._closing[oldest]:
                    self.refuse_one(monotonic())
                oldest.abort()


class _Search:
    """Finds the connections that have been in some state longest."""

    def __init__(
        self, since: Callable[[Connection], float | None], weight: Callable[[Connection], int]
    ) -> None:
        """``since``: when a connection's state began; ``None``: it is not in it. ``weight``: those for which
        it is larger come first, however long they have been in it."""
        self._since = since
        self._weight = weight
        self._found: list[tuple[float, Connection]] = []
        """From the last search. The one that comes first is the last here."""
        self._searched_at = 0.0

    def longest(
        self,
        connections: dict[Connection, str],
        now: float,
        least_s: float,
        may_go: Callable[[Connection], bool],
    ) -> Connection | None:
        """The first one that may go, of those in the state for ``least_s`` at least."""
        if not self._found and now - self._searched_at >= SEARCH_EVERY_S:
            self._searched_at = now
            states = ((since, one) for one in connections if (since := self._since(one)) is not None)
            long = ((-self._weight(one), since, one) for since, one in states if now - since >= least_s)
            first = nsmallest(FOUND_AT_ONCE, long, key=itemgetter(0, 1))
            self._found = [(since, one) for _, since, one in reversed(first)]
        others: list[tuple[float, Connection]] = []
        result: Connection | None = None
        while self._found and result is None:
            since, one = self._found.pop()
            # It may have been used or closed since the search.
            if one in connections and self._since(one) == since:
                if may_go(one):
                    result = one
                else:
                    others.append((since, one))
        self._found += reversed(others)
        return result
