"""Read turns: fairness among connections that bring or take large pieces, and between these and all others.

Theory. The loop reads a socket as long as it is full, up to 32 buffers of 256 kB in one turn: 8 MB, for each
of perhaps hundreds of uploads, or large responses, before any other connection is served again. So a
connection that has brought a large piece pauses and waits for its turn. In one turn of the loop ``AT_ONCE``
of those that wait are read, each for one buffer: of request bodies those that began first, so that what has
begun is completed before memory is taken for what came later. If what became of their pieces took long (the
search of a whole body), as long a pause follows: large bodies then take half of the worker's time at most.

What still comes of a request that was rejected is read in turns as well: hundreds of clients may send on
until they have read their responses. Large bodies are sent in turns too: a kernel takes megabytes at once.

Pipelined requests that the proxy itself answers (errors, above all) take turns too: thousands of them come in
one piece, and each connection has ``PIPELINED_AT_ONCE`` of them answered before others are read again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from time import monotonic
from typing import Final

LARGE: Final = 65_536
"""Bytes of one read after which a connection waits for its turn."""
AT_ONCE: Final = 2
PIPELINED_AT_ONCE: Final = 8
PIPELINED_S: Final = 0.001
"""Time of one turn of the loop for those that wait with pipelined requests, all together."""
LONG_S: Final = 0.002
LONGEST_PAUSE_S: Final = 0.05


class ReadTurns:
    """Those of one worker."""

    __slots__ = (
        "_bodies",
        "_count",
        "_loop",
        "_pipelined",
        "_rejected",
        "_requests",
        "_responses",
        "_scheduled",
        "_spent_s",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._bodies: list[tuple[int, int, Callable[[], None]]] = []
        self._responses: deque[Callable[[], None]] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self._rejected: deque[Callable[[], None]] = deque()
        self._pipelined: deque[Callable[[], None]] = deque()
        self._count = 0
        self._scheduled = False
        self._spent_s = 0.0
        """What the pieces of bodies of this turn have cost."""

    def wait(self, number: int, read_on: Callable[[], None], spent_s: float) -> None:
        """Call ``read_on`` when it is this connection's turn. ``number``: of its body; lower ones go first.
        ``spent_s``: as for :meth:`spend`."""
        self._count += 1
        self._spent_s += spent_s
        heappush(self._bodies, (number, self._count, read_on))
        self._schedule()

    def wait_for_response(self, read_on: Callable[[], None]) -> None:
        """The same for a response: they take turns one after the other."""
        self._responses.append(read_on)
        self._schedule()

    def wait_to_send(self, send_on: Callable[[], None]) -> None:
        """The same for a large request that is being sent: call ``send_on`` for the next slice of it."""
        self._requests.append(send_on)
        self._schedule()

    def wait_to_drop(self, read_on: Callable[[], None]) -> None:
        """The same for what still comes of a request that was rejected."""
        self._rejected.append(read_on)
        self._schedule()

    def wait_with_pipelined(self, serve_on: Callable[[], None]) -> None:
        """Call ``serve_on`` when others have been read."""
        self._pipelined.append(serve_on)
        self._schedule()

    def spend(self, spent_s: float) -> None:
        """What became of a large piece of a body took so long."""
        self._spent_s += spent_s

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            # At the end of this turn, so that all of its pieces are counted.
            self._loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        spent_s, self._spent_s = self._spent_s, 0.0
        if spent_s > LONG_S:
            self._loop.call_later(min(spent_s, LONGEST_PAUSE_S), self._next)
        else:
            self._next()

    def _next(self) -> None:
        bodies, pipelined = self._bodies, self._pipelined
        lines = (self._responses, self._requests, self._rejected)
        for _ in range(min(AT_ONCE, len(bodies))):
            heappop(bodies)[2]()
        for line in lines:
            for _ in range(min(AT_ONCE, len(line))):
                line.popleft()()
        began = monotonic()
        for _ in range(len(pipelined)):
            pipelined.popleft()()
            if monotonic() - began > PIPELINED_S:
                break
        self._scheduled = False
        if bodies or pipelined or any(lines):
            self._schedule()
