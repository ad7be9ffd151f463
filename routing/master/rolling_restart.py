"""Rolling restart (graceful reload): replaces the workers one after the other, while the proxy serves.

The successor of a worker accepts connections before the old process stops accepting. The old process then
finishes its requests. When it has ended, the next worker is replaced. If a successor fails to start, the
rolling restart ends, and the present workers go on.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from routing.ipc.control_channel import quiet_time_s
from routing.master.supervised_worker import ReplacementFailed, SupervisedWorker
from routing.master.worker_numbers import WorkerNumberAllocator

log = logging.getLogger(__name__)


class RollingRestart:
    """The rolling restarts of one proxy. ``renumbered`` is called when the worker numbers in use have
    changed."""

    def __init__(
        self,
        slots: Sequence[SupervisedWorker],
        numbers: WorkerNumberAllocator,
        drain_s: float,
        renumbered: Callable[[], None],
    ) -> None:
        self.replaced = 0
        """How many workers were replaced, in all rolling restarts."""
        self.failed = 0
        """How many rolling restarts ended because a successor failed."""
        self._supervised = slots
        self._numbers = numbers
        self._drain_s = drain_s
        self._renumbered = renumbered
        self._task: asyncio.Task[None] | None = None
        self._at = 0
        self._began_at = 0.0
        self._last: dict[str, Any] = {}

    @property
    def under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        """Begin a rolling restart, unless one is under way."""
        if not self.under_way:
            self._began_at, self._at = time.monotonic(), 0
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Cancel it, because the proxy is about to exit."""
        if self._task is not None:
            self._task.cancel()

    def status(self) -> dict[str, Any]:
        """What ``/status`` shows."""
        if not self.under_way:
            return {"under_way": False, **self._last}
        seconds = round(time.monotonic() - self._began_at, 3)
        return {"under_way": True, "worker": self._at, "of": len(self._supervised), "for_s": seconds}

    async def _run(self) -> None:
        log.info("rolling restart of %d workers", len(self._supervised))
        try:
            for worker in self._supervised:
                self._at = worker.index
                await self._replace(worker)
        except ReplacementFailed as problem:
            self.failed += 1
            self._end("failed", str(problem))
            log.error("the rolling restart has ended: %s; the workers that there are go on", problem)
        else:
            self._end("done", "")
            log.info("rolling restart done in %.1f s", self._last["took_s"])

    async def _replace(self, worker: SupervisedWorker) -> None:
        number = free = self._numbers.allocate()
        self._renumbered()
        try:
            free = await worker.replace(number, quiet_time_s(True, self._drain_s), self._drain_s)
            self.replaced += 1
        finally:
            self._numbers.release(free)
            self._renumbered()

    def _end(self, outcome: str, why: str) -> None:
        took_s = round(time.monotonic() - self._began_at, 3)
        self._last = {"last": outcome, "why": why, "took_s": took_s}
