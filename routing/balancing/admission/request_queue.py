"""Request queue: the requests of one fleet that wait for a slot at a replica, in one worker, by priority.

Rules.

- The highest class is served first. Within a class clients take turns by work, and of one client the oldest
  request is first (:mod:`routing.balancing.admission.fair_order`). A class that is never served would wait
  for ever, so each request has a deadline. Under overload the lower classes run into it.
- A request that waits for something particular (one replica, another replica than those it was at, much
  memory) lets others pass: what is free is of no use to it. When what it needs is free, it is asked first. A
  request that only prefers a fast replica lets others pass for half of its time, then takes any slot.
- When the queue is full, a request of a higher class replaces the one of the lowest class that would be
  served last. So does a request of the same class whose client's turn is earlier (longest queue drop): a
  client that fills the queue does not keep others out.
- Requests that need the same adapters, which only some replicas serve, do not keep others out either: while
  they are more than half of a full queue, the newest of them makes room for one that needs something else.

The queue knows no replicas and no clock; :mod:`routing.balancing.admission.admission_queue` serves it. Times
are monotonic seconds.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from routing.balancing.admission.fair_order import FairOrder
from routing.balancing.admission.start_tags import StartTags
from routing.balancing.admission.ticket import Ticket
from routing.contract.priority import PRIORITIES

CLASSES = len(PRIORITIES)
_SWEEP_FROM = 64
"""So many tickets that have left may stay in the heap of deadlines before it is made anew."""


class RequestQueue:
    """Who waits, in order."""

    def __init__(self, tags_of: Callable[[int], StartTags] | None = None) -> None:
        """``tags_of``: makes the start tags of a class, when the first of it waits."""
        self._tags_of = tags_of or (lambda rank: StartTags("", None))
        self._orders: list[FairOrder | None] = [None] * CLASSES
        self.counts = [0] * CLASSES
        """How many of each class."""
        self.by_need: dict[tuple[str, ...], int] = {}
        """How many need which adapters, of those that need any."""
        self.narrow = 0
        """How many that are: not every replica will do for them."""
        self._size = 0
        self._deadlines: list[tuple[float, int, Ticket]] = []
        self._number = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Ticket]:
        """In the order of service; the line may change meanwhile."""
        for order in self._orders:
            if order is not None:
                yield from order

    def order(self, rank: int) -> FairOrder:
        """Of one class."""
        order = self._orders[rank]
        if order is None:
            order = self._orders[rank] = FairOrder(self._tags_of(rank))
        return order

    @property
    def orders(self) -> Iterator[FairOrder]:
        """Of the classes of which any request has waited."""
        return (order for order in self._orders if order is not None)

    def first_of(self, rank: int) -> Ticket | None:
        """Who of a class is served next."""
        return self.order(rank).first if self.counts[rank] else None

    @property
    def first(self) -> Ticket | None:
        """Who is served next."""
        if self._size:
            for rank, waiting in enumerate(self.counts):
                if waiting:
                    return self.order(rank).first
        return None

    def gives_way(self, newcomer: Ticket) -> Ticket | None:
        """Who leaves a full queue for a newcomer; ``None``: nobody does."""
        for rank in range(CLASSES - 1, newcomer.rank - 1, -1):
            if self.counts[rank]:
                order = self.order(rank)
                if rank > newcomer.rank or order.would_be_before_last(newcomer):
                    return order.last
                break
        return self._newest_of_many(newcomer) if self.narrow else None

    def _newest_of_many(self, newcomer: Ticket) -> Ticket | None:
        """The newest request of those that need the same adapters and are more than half of the queue, unless
        the newcomer is one of them or of a lower class; ``None``: there is none."""
        needs = max(self.by_need, key=self.by_need.__getitem__)
        if needs == newcomer.needs or 2 * self.by_need[needs] <= self._size:
            return None
        found = (ticket for ticket in self if ticket.needs == needs and ticket.rank >= newcomer.rank)
        return max(found, key=lambda ticket: (ticket.rank, ticket.since), default=None)

    def join(self, ticket: Ticket) -> None:
        self.order(ticket.rank).join(ticket)
        self.counts[ticket.rank] += 1
        self._size += 1
        if ticket.needs:
            self.narrow += 1
            self.by_need[ticket.needs] = self.by_need.get(ticket.needs, 0) + 1
        self._number += 1
        heappush(self._deadlines, (ticket.deadline, self._number, ticket))

    def leave(self, ticket: Ticket, served: bool = False) -> bool:
        """Whether it was here. ``served``: it has a slot."""
        if not ticket.here:
            return False
        ticket.here = False
        self.order(ticket.rank).leave(ticket, served)
        self.counts[ticket.rank] -= 1
        self._size -= 1
        if ticket.needs:
            self.narrow -= 1
            self.by_need[ticket.needs] -= 1
            if not self.by_need[ticket.needs]:
                del self.by_need[ticket.needs]
        if len(self._deadlines) > 2 * self._size + _SWEEP_FROM:
            self._deadlines = sorted(entry for entry in self._deadlines if entry[2].here)
        return True

    def overdue(self, now: float) -> Ticket | None:
        """One whose deadline has passed, if there is any. It is still in the line."""
        deadlines = self._deadlines
        while deadlines and not deadlines[0][2].here:
            heappop(deadlines)
        return deadlines[0][2] if deadlines and deadlines[0][0] <= now else None

    def eldest(self, rank: int) -> float:
        """Since when the one of a class waits that has waited longest; 0: none does."""
        return self.order(rank).eldest if self.counts[rank] else 0.0

    @property
    def since(self) -> float:
        """Since when the one waits that has waited longest; 0: none does."""
        return min((self.eldest(rank) for rank in range(CLASSES) if self.counts[rank]), default=0.0)
