"""Rechecks (revocation): what callers may do has changed, and all requests in flight are looked at again.

There may be tens of thousands, so this is done in turns of ``TURN_S``, between which the loop serves others.
So is what follows a while later, of all that were to finish by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic

from routing.http.interfaces import Client

TURN_S = 0.003
FINISH_S = 1.0
"""Requests that are no longer allowed may finish for so long."""


class Rechecks:
    """Those of one worker."""

    __slots__ = (
        "_clients",
        "_is_asked",
        "_left",
        "_loop",
        "_narrowed",
        "_next",
        "_next_narrowed",
        "_unfinished",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, clients: Collection[Client]) -> None:
        """``clients``: all that are connected, at any time."""
        self._loop = loop
        self._clients = clients
        self._left: list[Client] = []
        """Those to look at in this pass."""
        self._narrowed: set[object] = set()
        """For :meth:`routing.http.interfaces.RequestHandler.recheck`, in this pass."""
        self._next_narrowed: set[object] = set()
        self._is_asked = False
        """Whether another pass is to follow."""
        self._unfinished: deque[tuple[float, Callable[[], None]]] = deque()
        """When requests are to be ended, and what ends them."""
        self._next: asyncio.Handle | None = None

    def begin(self, *narrowed: object) -> None:
        """Look at all requests that are in flight now. Those that come later are judged when they begin.
        ``narrowed``: where less is open than before."""
        self._next_narrowed.update(narrowed)
        self._is_asked = True
        self._go_on()

    def after_a_moment(self, end: Callable[[], None]) -> None:
        """Call ``end`` once the request has had the time to finish."""
        self._unfinished.append((monotonic() + FINISH_S, end))
        self._go_on()

    def _go_on(self) -> None:
        """See to the next turn: at once if there is something to look at."""
        if self._next is not None:
            self._next.cancel()
        self._next = None
        if self._left or self._is_asked:
            self._next = self._loop.call_soon(self._turn)
        elif self._unfinished:
            wait_s = self._unfinished[0][0] - monotonic()
            self._next = self._loop.call_later(max(wait_s, 0.0), self._turn)

    def _turn(self) -> None:
        self._next = None
        now = monotonic()
        stop = now + TURN_S
        try:
            while now < stop:
                if self._unfinished and self._unfinished[0][0] <= now:
                    self._unfinished.popleft()[1]()
                elif self._left:
                    exchange = self._left.pop().exchange
                    if exchange is not None:
                        exchange.recheck(self._narrowed)
                elif self._is_asked:
                    self._is_asked = False
                    self._left = list(self._clients)
                    self._narrowed, self._next_narrowed = self._next_narrowed, set()
                else:
                    self._narrowed.clear()
                    break
                now = monotonic()
        finally:
            self._go_on()
