"""Supervised worker: one worker with a listener of its own, restarted with backoff when its process dies.

A process that dies is replaced by another with the same worker number. In a rolling restart the successor
has a number of its own, and accepts from the same listener before the old process is stopped. So for a while
there are two processes; see :meth:`SupervisedWorker.replace`.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from routing.ipc.control_channel import ControlMessage
from routing.master.worker_process import POLL_EVERY_S, WorkerProcess

log = logging.getLogger(__name__)

CRASH_LOOP_RESET_S = 10.0
"""A process that lived this long is not part of a crash loop."""
RESTART_BACKOFF_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)
REPLACEMENT_TIMEOUT_S = 20.0
"""A successor that does not serve within this time is killed."""


class SupervisedWorker:
    """One worker, whatever process runs it. ``make``: makes a process, not started yet, from index and
    number."""

    def __init__(self, index: int, number: int, make: Callable[[int, int], WorkerProcess]) -> None:
        self.index = index
        self.restarts = 0
        """How many processes were started to replace one that died."""
        self.current = make(index, number)
        """The process that accepts connections."""
        self.leaving: WorkerProcess | None = None
        """A process that has been replaced, and finishes its requests."""
        self._make = make
        self._running: dict[WorkerProcess, asyncio.Task[str]] = {}
        self._replaced = asyncio.Event()
        self._is_over = False

    @property
    def processes(self) -> list[WorkerProcess]:
        """The current process, and those that still run."""
        return [self.current, *(one for one in self._running if one is not self.current)]

    def send(self, message: ControlMessage) -> None:
        for process in self.processes:
            process.send(message)

    async def run(self) -> None:
        """Keep a process running until it is to be stopped, then wait for its end."""
        try:
            await self._keep_one()
            await asyncio.gather(*self._running.values())
        finally:
            for life in self._running.values():
                life.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _keep_one(self) -> None:
        deaths = 0
        while not self._is_over:
            process, started = self.current, time.monotonic()
            end = await self._end_of(process)
            if self._is_over:
                return
            if end is None:
                deaths = 0
                continue
            lived_s = time.monotonic() - started
            deaths = 1 if lived_s >= CRASH_LOOP_RESET_S else deaths + 1
            delay_s = RESTART_BACKOFF_S[min(deaths, len(RESTART_BACKOFF_S)) - 1]
            self.restarts += 1
            words = "worker %d %s after %.1f s; its successor starts in %.1f s"
            log.error(words, self.index, end, lived_s, delay_s)
            await asyncio.sleep(delay_s)
            if self.current is process:
                self.current = self._make(self.index, process.number)

    async def _end_of(self, process: WorkerProcess) -> str | None:
        """Wait until it ends. Returns how it ended, in words; ``None``: it was replaced before that."""
        life = self._begin(process)
        while self.current is process and not life.done():
            self._replaced.clear()
            replaced = asyncio.ensure_future(self._replaced.wait())
            try:
                await asyncio.wait((life, replaced), return_when=asyncio.FIRST_COMPLETED)
            finally:
                replaced.cancel()
        return life.result() if self.current is process else None

    def _begin(self, process: WorkerProcess) -> asyncio.Task[str]:
        life = self._running.get(process)
        if life is None:
            self._running[process] = life = asyncio.get_running_loop().create_task(process.run())
            life.add_done_callback(lambda _: self._running.pop(process))
        return life

    async def replace(self, number: int, quiet_s: float, drain_s: float) -> int:
        """Replace the current process by a successor with the worker number ``number``, and let the old
        process finish for at most ``drain_s``. Returns the old process's number, which is free then. See
        ``StopAccepting`` for ``quiet_s``. Raises :class:`ReplacementFailed` if the successor does not start;
        the current process then stays.
        """
        successor = self._make(self.index, number)
        await self._wait_until_serving(successor, self._begin(successor))
        old, self.current = self.current, successor
        self._replaced.set()
        old_life = self._running.get(old)
        if old_life is not None:
            self.leaving = old
            old.leave(quiet_s)
            try:
                await self._drain_out(old, old_life, drain_s)
            finally:
                self.leaving = None
        return old.number

    async def _wait_until_serving(self, successor: WorkerProcess, life: asyncio.Task[str]) -> None:
        """Wait until it serves, and has a table if its predecessor has one."""
        end = time.monotonic() + REPLACEMENT_TIMEOUT_S
        why = ""
        while not (successor.serving and (successor.manifest or not self.current.manifest)):
            if life.done():
                why = life.result()
            elif time.monotonic() > end:
                why = f"did not serve within {REPLACEMENT_TIMEOUT_S:.0f} s"
            if why:
                successor.kill()
                await asyncio.wait((life,))
                raise ReplacementFailed(f"the successor of worker {self.index} {why}")
            await asyncio.sleep(POLL_EVERY_S)

    async def _drain_out(self, old: WorkerProcess, life: asyncio.Task[str], drain_s: float) -> None:
        done, _ = await asyncio.wait((life,), timeout=drain_s)
        if not done:
            log.warning("worker %d still had requests in flight after %g s", self.index, drain_s)
            old.kill()
            await asyncio.wait((life,))

    def stop_restarting(self) -> None:
        """From now on a process that ends is not replaced."""
        self._is_over = True

    def kill(self) -> None:
        """End all processes at once, without a successor."""
        self._is_over = True
        for process in self.processes:
            process.kill()


class ReplacementFailed(Exception):
    """The successor of a worker did not start; the message says why."""
