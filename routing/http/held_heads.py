"""Held heads (write coalescing): a response head that came without a byte of its body waits a moment for it.

Theory. Model servers write the head of a stream and its first event by two system calls. A quick reader finds
the head alone; forwarded at once it costs a write of its own, and the client a wake-up for nothing it can use
yet. So the head of a chunked body is held for ``HOLD_S`` at most: what comes within that time goes out with
it, in one write. If nothing comes, the head is forwarded alone. If the replica is lost meanwhile, the client
has got nothing of its response, so another replica may be asked.

One timer serves all connections of a worker. An entry whose body came is passed over, and sets no timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Protocol

HOLD_S = 0.003
STEP_S = 0.001
"""The loop's timers know whole milliseconds: what is due within the next one is due now."""


class HeadHolder(Protocol):
    """A connection that holds a head."""

    held_until: float
    """``time.monotonic()`` seconds; 0.0: it holds none."""

    def release_head(self, now: float) -> None:
        """Forward the head now, alone."""


class HeldHeads:
    """Those of one worker."""

    __slots__ = ("_held", "_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: deque[tuple[float, HeadHolder]] = deque()
        """By time, as all are held equally long."""
        self._scheduled = False

    def hold(self, holder: HeadHolder, now: float) -> None:
        """Have the holder release its head after ``HOLD_S`` at most, unless ``held_until`` changes before."""
        holder.held_until = until = now + HOLD_S
        self._held.append((until, holder))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(HOLD_S, self._release)

    def _release(self) -> None:
        now, held = monotonic(), self._held
        try:
            while held:
                until, holder = held[0]
                still = holder.held_until == until
                if still and until - now >= STEP_S:
                    break
                held.popleft()
                if still:
                    holder.release_head(now)
        finally:
            self._scheduled = bool(held)
            if held:
                self._loop.call_later(max(STEP_S, held[0][0] - now), self._release)
