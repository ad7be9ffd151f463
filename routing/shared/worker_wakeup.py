"""Worker wakeup: how one worker of a host wakes another, by an eventfd for each.

A worker with queued requests is woken when another one frees a slot. A superfluous wake-up costs little, and
a lost one costs a few milliseconds, because the waiting worker also polls.
"""

import contextlib
import os
from collections.abc import Sequence


class WorkerWakeups:
    """The descriptors of all workers, by their numbers. Where the system has no eventfd there are none."""

    def __init__(self, fds: Sequence[int]) -> None:
        self.fds = tuple(fds)

    @classmethod
    def create(cls, workers: int) -> "WorkerWakeups":
        """One for each worker; none for a worker that is alone."""
        if workers < 2 or not hasattr(os, "eventfd"):
            return cls(())
        return cls([os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(workers)])

    def wake(self, worker: int) -> None:
        """Wake that worker, so that it serves its queues."""
        if self.fds:
            # Full means that it was woken 2^64 times and has not read yet.
            with contextlib.suppress(OSError):
                os.eventfd_write(self.fds[worker], 1)

    def consume(self, worker: int) -> None:
        """Consume all wake-ups of this worker."""
        with contextlib.suppress(OSError):
            os.eventfd_read(self.fds[worker])
