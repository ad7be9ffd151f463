"""Queue scheduler: wakes queued requests for a free slot, a sibling worker's signal, or a timer."""

from __future__ import annotations

import asyncio
from time import monotonic

from routing.balancing.admission.admission_queue import LOOK_EVERY_S, AdmissionQueue
from routing.shared.worker_wakeup import WorkerWakeups


class QueueScheduler:
    """The scheduler of one worker, for the queues of all its fleets.

    Implements :class:`routing.balancing.admission.admission_queue.QueueWaker`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wakeups = WorkerWakeups(())
        self._soon: dict[AdmissionQueue, None] = {}
        """Queues to serve in the event loop's next iteration."""
        self._waiting_queues: set[AdmissionQueue] = set()
        """Queues in which requests wait."""
        self._ticking = False

    def attach(self, wakeups: WorkerWakeups, worker: int) -> None:
        """From now on this worker can wake the other workers of its host, and be woken by them."""
        self._wakeups = wakeups
        if wakeups.fds:
            self._loop.add_reader(wakeups.fds[worker], self._woken, worker)

    def serve_soon(self, admission: AdmissionQueue) -> None:
        if not self._soon:
            self._loop.call_soon(self._look)
        self._soon[admission] = None

    def wake(self, worker: int) -> None:
        self._wakeups.wake(worker)

    def _look(self) -> None:
        soon, self._soon = self._soon, {}
        # First, so that waiting requests are checked again whatever happens here.
        self._waiting_queues.update(admission for admission in soon if len(admission.queue))
        if self._waiting_queues and not self._ticking:
            self._ticking = True
            self._loop.call_later(LOOK_EVERY_S, self._tick)
        now = monotonic()
        for admission in soon:
            admission.serve(now)

    def _woken(self, worker: int) -> None:
        self._wakeups.consume(worker)
        now = monotonic()
        for admission in list(self._waiting_queues):
            admission.serve(now, woken=True)

    def _tick(self) -> None:
        now = monotonic()
        try:
            for admission in list(self._waiting_queues):
                admission.serve(now, yields=False)
        finally:
            self._waiting_queues = {admission for admission in self._waiting_queues if len(admission.queue)}
            self._ticking = bool(self._waiting_queues)
            if self._ticking:
                self._loop.call_later(LOOK_EVERY_S, self._tick)
