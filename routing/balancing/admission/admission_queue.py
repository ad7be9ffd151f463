"""Admission queue: which requests wait when no replica has a slot, and which is next, on the whole host.

Theory. A request is bound to a replica only when that has a slot for it (late binding). So none queues behind
a slow replica while another is idle. Each worker has a queue of its own, for the requests on its connections.
It shows the others, class by class, how many wait and since when, in shared memory. The worker that frees a
slot looks whose request is first of all: its own is served at once, or another worker is woken. A new request
does not overtake those that wait, in whichever worker. Only where the strategy weighs the wait against a
slower slot (``weighs_waiting``) does it take a slot that nobody waits for.

So that clients take turns on the whole host, a class has one virtual time, and a client one start tag, in all
workers (:mod:`routing.balancing.admission.start_tags`). A worker shows the tag of the request that is first,
and whose tag that is: of two requests of one client in two workers the older one is first.

A request that needs adapters which only some replicas serve does not make others wait. Newcomers that any
replica can serve do not line up behind it, and workers do not yield to one whose first is such a request: it
is asked beside them when a slot becomes free.

A worker that was woken may be unable to use the slot, or may be stopped. So each worker with a queue also
looks by itself every :data:`LOOK_EVERY_S`, and then takes what is free, whoever is first. That also bounds
what a lost wake-up costs.

Sources: late binding as in Sparrow (Ousterhout et al., SOSP 2013 §3.3) and in any central queue; bounded
queues and early rejection as in "Overload control for scaling WeChat microservices" (Zhou et al., SoCC 2018).
Failure mode: strict classes starve the lowest one under lasting overload, until its requests' deadlines.
"""

from collections.abc import Callable
from typing import Protocol

from routing.balancing.admission.free_slots import FreeSlots
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.request_queue import CLASSES, RequestQueue
from routing.balancing.admission.service_rate import ServiceRate
from routing.balancing.admission.start_tags import FLOWS, StartTags
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.contract.policy import Queue
from routing.contract.sketch import bucket_of
from routing.contract.telemetry import FleetCounters
from routing.shared.limits import give_back, take
from routing.shared.shm_counters import CounterCells, SharedCounters

LOOK_EVERY_S = 0.005
MOST_ASKED = 16
"""Of those that want no slot that is free, so many are asked; those behind them go on waiting, unless the
replica that they wait for has a slot. Of these as many are asked again."""
MOST_ASKED_OF_NEED = 2
"""So many are asked of those that need the same adapters: others will hardly find what these do not."""
LATE_BY = 1.5
"""A request whose predicted wait is so many times what it may wait is refused at once."""

# Fields of a fleet's cell.
WAITING = 0
ENDED = 1
SINCE = 2
"""And the fields behind it, one a class: since when its first waits, 0: nobody does."""
LENGTH = SINCE + CLASSES
"""Likewise: how many wait."""
START = LENGTH + CLASSES
"""The start tag of its first."""
FLOW = START + CLASSES
"""Whose that is, as :class:`StartTags` numbers clients."""
VIRTUAL_TIME = FLOW + CLASSES
"""The tag that was served last."""
CLIENTS = VIRTUAL_TIME + CLASSES
"""How many clients wait."""
NARROW = CLIENTS + CLASSES
"""How many wait for which not every replica will do, of all classes."""
FIRST_IS_NARROW = NARROW + 1
"""And the fields behind it, one a class: whether its first is such a one."""


class QueueWaker(Protocol):
    """Wakes the requests of a queue when there may be a slot: the worker, which has an event loop."""

    def serve_soon(self, admission: "AdmissionQueue") -> None:
        """Have :meth:`AdmissionQueue.serve` called as soon as what happens now is over."""

    def wake(self, worker: int) -> None:
        """Have another worker of the host look."""


class NullWaker(QueueWaker):
    """For pools without a proxy, where no request waits."""

    def serve_soon(self, admission: "AdmissionQueue") -> None:
        """There is nothing to look at."""

    def wake(self, worker: int) -> None:
        """There is no other worker."""


class AdmissionQueue:
    """One pool's queue, and what the other workers of the host show of theirs."""

    def __init__(self, fleet: str, counters: FleetCounters, shared: SharedCounters | None) -> None:
        self.queue = RequestQueue(self._tags_of)
        self.policy = Queue()
        """Of the queue, the one in force."""
        self.size = self.policy.size
        """This host's part of the queue's size."""
        self.rate = ServiceRate()
        self.free_slots = FreeSlots()
        """Who has a slot, where hardly any replica has one."""
        self.waker: QueueWaker = NullWaker()
        self.has_waiters = False
        """Whether somebody waits, here or, as last seen, in another worker, for whom any replica will do:
        newcomers line up."""
        self.anybody_waits = False
        """The same of all who wait."""
        self._fleet = fleet
        self._counters = counters
        self._shared = shared
        self._cells: CounterCells | None = None
        self._ended = 0
        self._slots_freed = 0
        """That have become free since somebody was last let in."""

    # --- cells -------------------------------------------------------------------------------------

    def share(self) -> None:
        """Have cells in the shared counts, and have them again where the master has cleared them. Without
        any each worker has a line of its own, of the whole size."""
        shared, before = self._shared, self._cells
        if shared is None or shared.workers < 2:
            return
        self._cells = cells = shared.ensure_held(f"fleet/{self._fleet}", before)
        if cells is not None and cells is not before:
            cells.write(WAITING, len(self.queue))
            self._show(*range(CLASSES))
        for order in self.queue.orders:
            order.tags.share()

    def _tags_of(self, rank: int) -> StartTags:
        shared = self._shared
        return StartTags(f"fleet/{self._fleet}/turns/{rank}", None if self._cells is None else shared)

    def unshare(self) -> None:
        """The fleet is gone."""
        for order in self.queue.orders:
            order.tags.unshare()
        if self._shared is not None and self._cells is not None:
            self._shared.release(self._cells)
            self._cells = None

    def _show(self, *ranks: int) -> None:
        """Let the others see who waits, of these classes."""
        cells, queue = self._cells, self.queue
        if cells is not None:
            for rank in ranks:
                first = queue.first_of(rank)
                if first is not None:
                    cells.write(START + rank, first.start)
                    cells.write(FLOW + rank, first.client % FLOWS)
                    cells.write(CLIENTS + rank, queue.order(rank).clients)
                    cells.write(FIRST_IS_NARROW + rank, 1.0 if first.needs else 0.0)
                cells.write(SINCE + rank, 0.0 if first is None else first.since)
                cells.write(LENGTH + rank, queue.counts[rank])
            cells.write(NARROW, queue.narrow)

    def look_at_peers(self) -> None:
        """Whether somebody waits in another worker."""
        cells, queue = self._cells, self.queue
        elsewhere = 0.0 if cells is None else cells.siblings_sum(WAITING)
        self.anybody_waits = self.has_waiters = bool(len(queue) or elsewhere)
        if self.anybody_waits and len(queue) == queue.narrow:
            if elsewhere and cells is not None:
                elsewhere -= cells.siblings_sum(NARROW)
            self.has_waiters = elsewhere > 0

    def refresh(self, now: float) -> None:
        """On the slow timer."""
        self.share()
        cells, ended = self._cells, float(self._ended)
        if cells is not None:
            cells.write(ENDED, ended)
            ended += cells.siblings_sum(ENDED)
        self.look_at_peers()
        (self.rate.observe if self.anybody_waits else self.rate.observe_idle)(ended, now)

    # --- coming and going ----------------------------------------------------------------------------

    def join(self, ticket: Ticket, preferred: Replica | None, now: float) -> Rejection | None:
        """Join the queue, for a slot at the replica that is ``preferred``. Returns a rejection if there is no
        room, or if the request would come too late."""
        max_wait_s = ticket.deadline - now
        if self._cells is not None:
            rank = ticket.rank
            self.queue.order(rank).catch_up(self._cells.siblings_max(VIRTUAL_TIME + rank))
        if self.rate.known and self.rate.wait_for(self._ahead_of(ticket) + 1) > LATE_BY * max_wait_s:
            self._counters.queue_late += 1
            return self._rejection("queue_late", f"would wait longer than its limit of {max_wait_s:.3g} s")
        if not self._take_room():
            self._counters.queue_full += 1
            last = self.queue.gives_way(ticket)
            if last is None:
                return self._full()
            self.leave(last)
            last.waiter.preempted(now)
            if not self._take_room():
                return self._full()
        self.queue.join(ticket)
        self._set_target(ticket, preferred)
        self._counters.queued += 1
        self.anybody_waits = True
        if not ticket.needs:
            self.has_waiters = True
        self._show(ticket.rank)
        # There may be a slot by now, or none may ever have been missing but for those that wait elsewhere.
        self.waker.serve_soon(self)
        return None

    def leave(self, ticket: Ticket, served: bool = False) -> None:
        """The request waits no longer. ``served``: it has a slot."""
        if self.queue.leave(ticket, served):
            self._set_target(ticket, None)
            for device in ticket.reserved:
                device.unreserve(ticket)
            if self._cells is not None:
                give_back(self._cells, WAITING, 1)
                if served:
                    rank = ticket.rank
                    self._cells.write(VIRTUAL_TIME + rank, self.queue.order(rank).virtual_time)
            self._show(ticket.rank)
            self.look_at_peers()

    def look(self, ticket: Ticket, begin: Callable[[], Attempt | Rejection]) -> Attempt | Rejection:
        """Look for a slot by ``begin``, which must not count this request among those that wait."""
        self._set_target(ticket, None)
        found = begin()
        if isinstance(found, Rejection):
            self._set_target(ticket, found.preferred)
        return found

    @staticmethod
    def keep_memory(ticket: Ticket, now: float) -> None:
        """Keep memory free for a request that has waited half of its time for it. Otherwise smaller ones that
        come later would take all that is given back."""
        memory = None if ticket.target is None else ticket.target.memory
        if memory is not None and not ticket.reserved and now >= ticket.half_time:
            ticket.reserved = memory.reserve(ticket, Demand(ticket.work, ticket.since))

    @staticmethod
    def _set_target(ticket: Ticket, replica: Replica | None) -> None:
        if ticket.target is not replica:
            if ticket.target is not None:
                sibling_load.count_queued(ticket.target, -1, -ticket.work)
            if replica is not None:
                sibling_load.count_queued(replica, 1, ticket.work)
            ticket.target = replica

    def found(self, ticket: Ticket, now: float) -> None:
        """It has found a slot."""
        self.leave(ticket, served=True)
        counts = self._counters.waited
        bucket = bucket_of(now - ticket.since)
        counts[bucket] = counts.get(bucket, 0) + 1

    def _take_room(self) -> bool:
        if self._cells is None:
            return len(self.queue) < self.size
        return take(self._cells, WAITING, 1, self.size)

    def _ahead_of(self, ticket: Ticket) -> float:
        """How many are served before a newcomer, at most: those of higher classes, and of its own class as
        many of each client as of its own. Where any replica will do for it, it passes those that need
        adapters."""
        cells, rank, counts = self._cells, ticket.rank, self.queue.counts
        order = self.queue.order(rank)
        higher, same, clients = float(sum(counts[:rank])), float(counts[rank]), float(order.clients)
        if cells is not None:
            higher += sum(cells.siblings_sum(LENGTH + one) for one in range(rank))
            same += cells.siblings_sum(LENGTH + rank)
            clients += sum(
                cells.view[sibling + CLIENTS + rank]
                for sibling in cells.siblings
                if cells.view[sibling + LENGTH + rank]
            )
        ahead = higher + min(same, (order.waiting(ticket.client) + 1) * clients)
        if ticket.needs or not ahead:
            return ahead
        narrow = self.queue.narrow + (0.0 if cells is None else cells.siblings_sum(NARROW))
        return max(0.0, ahead - narrow)

    def _full(self) -> Rejection:
        size = self.size
        if not size:
            return self._rejection("queue_full", "cannot wait: the fleet's queue has size 0")
        return self._rejection("queue_full", f"cannot wait: the queue is full ({size} waiting)")

    def _rejection(self, code: str, words: str) -> Rejection:
        message = f"every eligible replica of fleet {self._fleet} is busy, and the request {words}"
        return Rejection(code, message, self.retry_after())

    def retry_after(self) -> float:
        """Seconds after which a request that comes now would be served."""
        cells = self._cells
        waiting = len(self.queue) + (0 if cells is None else cells.siblings_sum(WAITING))
        return self.rate.retry_after(waiting + 1, self.policy.timeout_s)

    # --- serving -------------------------------------------------------------------------------------

    def slot_freed(self, replica: Replica) -> None:
        """A request has ended at a replica that has a limit."""
        self._ended += 1
        self._slots_freed += 1
        if self.free_slots.few:
            self.free_slots.note(replica)
        if self.anybody_waits:
            self.wake_next()
        elif (cells := self._cells) is not None:
            view = cells.view
            for sibling in cells.siblings:
                if view[sibling]:  # WAITING, the first of its fields
                    self.wake_next()
                    return

    def memory_freed(self) -> None:
        """A request has ended, of whichever fleet, that had memory on a device of this fleet's replicas."""
        if self.anybody_waits or (self._cells is not None and self._cells.siblings_sum(WAITING)):
            self.wake_next()

    def wake_next(self) -> None:
        """There may be a slot: wake whoever is first."""
        first = self.queue.first
        sibling = self._peer_before(first)
        if sibling is not None:
            self.waker.wake(sibling)
        if first is not None and (sibling is None or first.needs):
            self.waker.serve_soon(self)
        cells = self._cells
        if cells is not None and cells.siblings_sum(NARROW):
            self._wake_narrow(cells)

    def _wake_narrow(self, cells: CounterCells) -> None:
        """Wake the workers to which none yields, because their first request needs adapters."""
        view = cells.view
        for worker, cell in cells.others:
            if any(
                view[cell + LENGTH + rank] and view[cell + FIRST_IS_NARROW + rank] for rank in range(CLASSES)
            ):
                self.waker.wake(worker)

    def _peer_before(self, first: Ticket | None) -> int | None:
        """The worker whose waiter goes before this one; ``None``: there is no such worker. One whose waiter
        needs adapters goes before nobody: what is free may be of no use to it."""
        cells = self._cells
        if cells is None:
            return None
        view, best, found = cells.view, None, None
        if first is not None:
            best = (first.rank, first.start, first.since)
        for worker, cell in cells.others:
            for rank in range(CLASSES):
                since = view[cell + SINCE + rank]
                if since:
                    if view[cell + FIRST_IS_NARROW + rank]:
                        break
                    if best is None or rank <= best[0]:
                        # It may have shown its tag before another worker served the same client.
                        served = self.queue.order(rank).tags.of(int(view[cell + FLOW + rank]))
                        turn = (rank, max(view[cell + START + rank], served), since)
                        if best is None or turn < best:
                            best, found = turn, worker
                    break
        return found

    def serve(self, now: float, yields: bool = True, woken: bool = False) -> None:
        """Serve the requests that find a slot, in order. ``yields``: not before another worker's that is
        first. ``woken``: by another worker, which is not woken in return: two could do so for ever."""
        queue = self.queue
        while (ticket := queue.overdue(now)) is not None:
            self.leave(ticket)
            self._counters.queue_late += 1
            ticket.waiter.timed_out(now)
        if self._cells is not None:
            # Other workers may have served whose request is first here: then another may be first by now.
            self._show(*(rank for rank in range(CLASSES) if queue.counts[rank]))
        found, asked = not len(queue), 0
        slots, self._slots_freed = max(1, self._slots_freed), 0
        refused: dict[tuple[str, ...], int] = {}
        for ticket in queue:
            if not ticket.here:
                continue
            sibling = self._peer_before(ticket) if yields else None
            if sibling is not None:
                if not woken:
                    self.waker.wake(sibling)
                return
            needs = ticket.needs
            if needs and refused.get(needs, 0) >= MOST_ASKED_OF_NEED:
                continue
            if asked >= MOST_ASKED and not self._has_slot_at_last(ticket):
                continue
            patient = ticket.yields_to_others(now)
            if ticket.waiter.admit(now, patient):
                found = True
                slots -= 1
                continue
            asked += not ticket.particular
            if needs:
                refused[needs] = refused.get(needs, 0) + 1
            # One that has come unnoticed is found at the next look.
            if not patient or asked == 2 * MOST_ASKED or (yields and slots <= 0):
                return
        # Places may be left, for others. Two that have found none would call each other for ever.
        if found and (sibling := self._peer_before(None)) is not None:
            self.waker.wake(sibling)

    @staticmethod
    def _has_slot_at_last(ticket: Ticket) -> bool:
        """Whether the replica that it waits for has one: known without asking."""
        target = ticket.target
        return target is not None and sibling_load.has_slot(target, Demand(ticket.work, ticket.since))

    def report(self, now: float) -> None:
        """Into the pool's counters."""
        since = self.queue.since
        self._counters.waiting = len(self.queue)
        self._counters.oldest_wait_s = max(0.0, now - since) if since else 0.0
