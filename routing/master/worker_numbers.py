"""Worker numbers: each worker process has one, for its shared-memory counters and its wakeup descriptor.

There is one number more than workers. So in a rolling restart a successor has counters apart from those of
the process that it replaces, and limits that apply to all workers hold throughout. A number is free again
when its process has been replaced and has ended.
"""

from routing.shared.shm_counters import SharedCounters
from routing.shared.totals_block import TotalsBlock
from routing.shared.worker_wakeup import WorkerWakeups

SPARE = 1


class WorkerNumberAllocator:
    """The worker numbers of one proxy. All but the spare one are taken from the start."""

    def __init__(self, slots: int) -> None:
        self.counts = SharedCounters.create(slots + SPARE)
        self.wakeups = WorkerWakeups.create(slots + SPARE)
        self.totals = TotalsBlock.create(slots + SPARE)
        self.taken = set(range(slots))

    def allocate(self) -> int:
        """Take a free number. Raises LookupError if there is none."""
        free = set(range(self.counts.workers)) - self.taken
        if not free:
            raise LookupError("every number is taken")
        number = min(free)
        self.taken.add(number)
        return number

    def release(self, number: int) -> None:
        self.taken.discard(number)
