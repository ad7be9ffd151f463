"""Worker wakeup: how one worker of a host wakes another, by an eventfd for each.

A worker that waits for a place that another one frees is told so. To be told too often costs little, and a
word that is lost costs a few milliseconds, for who waits looks up by itself as well.
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
        """Have that worker look whether it can go on."""
        if self.fds:
            # Full means that it has been told 2^64 times and has not looked yet.
            with contextlib.suppress(OSError):
                os.eventfd_write(self.fds[worker], 1)

    def hear(self, worker: int) -> None:
        """Take note of all that this worker has been told."""
        with contextlib.suppress(OSError):
            os.eventfd_read(self.fds[worker])
