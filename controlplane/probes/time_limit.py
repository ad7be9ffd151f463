"""Time limit of one probe: it counts only time in which the prober's own loop ran (:mod:`.stall_meter`)."""

import asyncio
import time
from types import TracebackType
from typing import Self

from controlplane.probes.stall_meter import StallMeter

LONGEST = 4
"""Times the limit: then it ends, however little of that the loop ran, and nothing was learned."""

CLOCK_S = 0.001
"""The loop's timers count milliseconds, and may be early by one."""


class ProberLate(Exception):
    """The limit ran out, but the prober itself was late for most of it."""


class TimeLimit:
    """``async with TimeLimit(meter, 1.0): …`` raises TimeoutError, or ProberLate."""

    __slots__ = ("_began", "_handle", "_limit_s", "_meter", "_outcome", "_stalled_s", "_task")

    def __init__(self, meter: StallMeter, limit_s: float) -> None:
        self._meter = meter
        self._limit_s = limit_s
        self._outcome: type[BaseException] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        self._began = time.monotonic()
        self._stalled_s = self._meter.stalled_s()
        self._handle = asyncio.get_running_loop().call_later(self._limit_s + CLOCK_S, self._is_over)
        return self

    def _is_over(self) -> None:
        took_s = time.monotonic() - self._began
        ran_s = took_s - (self._meter.stalled_s() - self._stalled_s)
        left_s = self._limit_s - ran_s
        # Timers run before sockets are read (libuv): what came meanwhile is read before anybody is blamed.
        if left_s > self._limit_s / 100 and took_s < LONGEST * self._limit_s:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(left_s + CLOCK_S, self._is_over)
            return
        self._outcome = ProberLate if left_s > self._limit_s / 100 else TimeoutError
        assert self._task is not None
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.cancel()
        if self._outcome is None:
            return
        if kind is asyncio.CancelledError:
            assert self._task is not None
            if self._task.uncancel() > 0:
                return  # also by somebody else
            raise self._outcome from error
        if kind is None and self._task is not None and self._task.cancelling():
            self._task.uncancel()
