"""The numbers under which worker processes count, and what they share by them.

There is one more than slots, so that in a rolling restart a successor counts apart from the process whose
place it takes: limits that hold over all workers hold throughout. A number belongs to a slot's process and is
free when that one has been replaced and has ended.
"""

from routing.shared.counts import SharedCounts
from routing.shared.wake_ups import WakeUps

SPARE = 1


class WorkerNumbers:
    """Of one proxy. Those of the slots themselves are taken from the beginning."""

    def __init__(self, slots: int) -> None:
        self.counts = SharedCounts.create(slots + SPARE)
        self.wakes = WakeUps.create(slots + SPARE)
        self.taken = set(range(slots))

    def take(self) -> int:
        """The free one. LookupError while there is none."""
        free = set(range(self.counts.workers)) - self.taken
        if not free:
            raise LookupError("every number is taken")
        number = min(free)
        self.taken.add(number)
        return number

    def give_back(self, number: int) -> None:
        self.taken.discard(number)
