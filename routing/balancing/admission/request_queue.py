"""Request queue: the requests of one fleet that wait for a slot at a replica, in one worker, by priority.

Rules.

- The highest class is served first; within a class, first come, first served. A class that is never served
  would wait for ever, so each request has a deadline. Under overload the lower classes run into it.
- A request that waits for something particular (one replica, another replica than those it was at, much
  memory) lets others pass: what is free is of no use to it. When what it needs is free, it is asked first. A
  request that only prefers a fast replica lets others pass for half of its time, then takes any slot.
- When the queue is full, a request of a higher class replaces the last one of the lowest class.

The queue knows no replicas and no clock; :mod:`routing.balancing.admission.admission_queue` serves it. Times
are monotonic seconds.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Protocol

from routing.balancing.replica.device_memory import Device
from routing.balancing.replica.state import Replica
from routing.contract.priority import PRIORITIES

CLASSES = len(PRIORITIES)
_SWEEP_FROM = 64
"""So many tickets that have left may stay in the heap of deadlines before it is made anew."""


class Waiter(Protocol):
    """A request that waits."""

    def admit(self, now: float, patient: bool) -> bool:
        """Look for a slot; ``patient``: it may find each that is free too poor. False: it goes on waiting.
        True: it does not, because it has found one or because it has been answered otherwise."""

    def timed_out(self, now: float) -> None:
        """Its deadline has passed. It has left the queue."""

    def preempted(self, now: float) -> None:
        """Displaced by a request of a higher class. It has left the queue."""


class Ticket:
    """An entry in the queue."""

    __slots__ = ("deadline", "here", "particular", "rank", "reserved", "since", "target", "waiter", "work")

    def __init__(
        self,
        waiter: Waiter,
        rank: int,
        since: float,
        deadline: float,
        work: float = 1.0,
        particular: bool = False,
    ) -> None:
        self.waiter = waiter
        self.rank = rank
        """Of its class; 0 is served first."""
        self.since = since
        self.deadline = deadline
        self.work = work
        """Estimated units."""
        self.particular = particular
        """Whether not every replica will do."""
        self.target: Replica | None = None
        """The replica that it would best wait for, which counts it; ``None``: any."""
        self.reserved: Sequence[Device] = ()
        """Devices on which memory is kept free for it."""
        self.here = True

    def yields_to_others(self, now: float) -> bool:
        """Whether others go before it, where it finds no slot itself."""
        return self.particular or bool(self.reserved) or (self.target is not None and now < self.half_time)

    @property
    def half_time(self) -> float:
        """When half of its time is over."""
        return (self.since + self.deadline) / 2

    def __lt__(self, other: "Ticket") -> bool:
        return (self.rank, self.since) < (other.rank, other.since)

    def __repr__(self) -> str:
        return f"<Ticket of class {self.rank} since {self.since:.3f} until {self.deadline:.3f}>"


class RequestQueue:
    """Who waits, in order."""

    def __init__(self) -> None:
        self._order: list[Ticket] = []
        self.counts = [0] * CLASSES
        """How many of each class."""
        self._deadlines: list[tuple[float, int, Ticket]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Ticket]:
        """In the order of service; the line may change meanwhile."""
        return iter(self._order.copy())

    @property
    def first(self) -> Ticket | None:
        """Who is served next."""
        return self._order[0] if self._order else None

    @property
    def last(self) -> Ticket | None:
        """Who is served last: of the lowest class the youngest."""
        return self._order[-1] if self._order else None

    def join(self, ticket: Ticket) -> None:
        insort(self._order, ticket)
        self.counts[ticket.rank] += 1
        self._number += 1
        heappush(self._deadlines, (ticket.deadline, self._number, ticket))

    def leave(self, ticket: Ticket) -> bool:
        """Whether it was here."""
        if not ticket.here:
            return False
        ticket.here = False
        self._order.remove(ticket)
        self.counts[ticket.rank] -= 1
        if len(self._deadlines) > 2 * len(self._order) + _SWEEP_FROM:
            self._deadlines = sorted(entry for entry in self._deadlines if entry[2].here)
        return True

    def overdue(self, now: float) -> Ticket | None:
        """One whose deadline has passed, if there is any. It is still in the line."""
        deadlines = self._deadlines
        while deadlines and not deadlines[0][2].here:
            heappop(deadlines)
        return deadlines[0][2] if deadlines and deadlines[0][0] <= now else None

    def eldest(self, rank: int) -> float:
        """Since when the first of a class waits; 0: none does."""
        return self._order[sum(self.counts[:rank])].since if self.counts[rank] else 0.0

    @property
    def since(self) -> float:
        """Since when the one waits that has waited longest; 0: none does."""
        return min((self.eldest(rank) for rank in range(CLASSES) if self.counts[rank]), default=0.0)
