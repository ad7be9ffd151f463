"""Worker numbers: which shared-memory counters and which wakeup each worker process has.

There is one number more than slots, so that in a rolling restart a successor counts apart from the process
that it replaces: limits that apply to all workers hold throughout. A number belongs to a slot's process, and
is free when that process has been replaced and has ended.
"""

from routing.shared.shm_counters import SharedCounters
from routing.shared.worker_wakeup import WorkerWakeups

SPARE = 1


class WorkerNumberAllocator:
    """The worker numbers of one proxy. Those of the slots themselves are taken from the beginning."""

    def __init__(self, slots: int) -> None:
        self.counts = SharedCounters.create(slots + SPARE)
        self.wakeups = WorkerWakeups.create(slots + SPARE)
        self.taken = set(range(slots))

    def allocate(self) -> int:
        """The free one. LookupError while there is none."""
        free = set(range(self.counts.workers)) - self.taken
        if not free:
            raise LookupError("every number is taken")
        number = min(free)
        self.taken.add(number)
        return number

    def release(self, number: int) -> None:
        self.taken.discard(number)
