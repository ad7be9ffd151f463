"""Library calls: begun and settled from any thread of one process, under one lock, and queued for slots.

The lock is held for the microseconds of a pick or a settlement, never while a call runs or waits. In the
middle of a pick the garbage collector may settle an abandoned call, in the same thread. So the lock is
reentrant, and such a settlement is deferred until the pick is done.

A waiting call gets its slot when another call gives one back. The first in the queue also looks by itself
every :data:`LOOK_EVERY_S`, for slots that become free with time alone: during a slow start, or when an
ejection ends.
"""

import threading
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import MONITORED, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import ANY_SLOT, DEQUEUED, NEW, Pool
from routing.balancing.replica.client_source import ClientSource, client_number
from routing.balancing.replica.state import Replica

T = TypeVar("T")

LOOK_EVERY_S = 0.05
_RANK = 1


class ThreadSafePool:
    """A pool with a lock around it, which wakes the calls that wait
    (:class:`routing.balancing.admission.admission_queue.QueueWaker`)."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        self.pool = pool
        self.clock = clock
        self.numbers = count(1)
        """Request numbers for calls that name their client: each call counts as a different request."""
        self._lock = threading.RLock()
        self._busy = False
        self._serve_pending = False
        self._ended: list[tuple[Attempt, Outcome]] = []
        pool.admission.waker = self

    def serve_soon(self, admission: AdmissionQueue) -> None:
        self._serve_pending = True

    def wake(self, worker: int) -> None:
        """There is no other worker."""

    def do(self, work: Callable[[float], T]) -> T:
        """Run ``work(now)`` under the lock, then settle ended calls and serve the queue."""
        with self._lock:
            if self._busy:
                return work(self.clock())
            self._busy = True
            try:
                return work(self.clock())
            finally:
                self._run_deferred()
                self._busy = False

    def settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle a call that has ended."""
        with self._lock:
            self._ended.append((attempt, outcome))
            if not self._busy:
                self._busy = True
                try:
                    self._run_deferred()
                finally:
                    self._busy = False

    def _run_deferred(self) -> None:
        while self._ended or self._serve_pending:
            while self._ended:
                attempt, outcome = self._ended.pop()
                attempt.settle(outcome, self.clock())
            if self._serve_pending:
                self._serve_pending = False
                self.pool.admission.serve(self.clock())


class LibraryCall:
    """One call of the library: it has a slot, was rejected, or waits
    (:class:`routing.balancing.admission.ticket.Waiter`)."""

    def __init__(
        self,
        calls: ThreadSafePool,
        work: float,
        tried: tuple[Replica, ...],
        key: str | bytes,
        client: str | bytes,
    ) -> None:
        self._calls = calls
        self._work = work
        self._tried = tried
        self._key = key.encode() if isinstance(key, str) else key
        self._client = client.encode() if isinstance(client, str) else client
        self._hashes: tuple[int, ...] = ()
        self._ticket: Ticket | None = None
        self.attempt: Attempt | None = None
        self.rejection: Rejection | None = None
        self.on_decided: Callable[[], None] = _do_nothing
        """Called under the lock, in any thread, when a waiting call gets its slot or is rejected."""

    @property
    def waits(self) -> bool:
        return self.attempt is None and self.rejection is None

    def begin(self, timeout_s: float) -> None:
        """Get a slot, be rejected, or wait for at most ``timeout_s``."""
        self._calls.do(lambda now: self._begin(now, timeout_s))

    def _begin(self, now: float, timeout_s: float) -> None:
        pool = self._calls.pool
        if self._key and pool.affinity is not None:
            self._hashes = pool.affinity.hashes(self._key)
        found = pool.begin(self._work, now, self._tried, NEW if timeout_s > 0 else ANY_SLOT, key=self._hashes)
        if isinstance(found, Attempt):
            self.attempt = found
        elif timeout_s > 0 and found.max_wait_s:
            work = self._work or pool.speed.mean_work
            client, charge = client_number(self._client), pool.charge(self._work)
            self._ticket = Ticket(self, _RANK, now, now + timeout_s, work, bool(self._tried), client, charge)
            self.rejection = pool.admission.join(self._ticket, found.preferred, now)
        else:
            self.rejection = found

    def look(self) -> None:
        """Look for a slot that has become free with time alone, if this call is first in the queue."""

        def first_looks(now: float) -> None:
            admission = self._calls.pool.admission
            if self.waits and admission.queue.first is self._ticket:
                admission.serve(now)

        self._calls.do(first_looks)

    def cancel(self) -> None:
        """The caller does not wait any longer: leave the queue, or give the slot back."""
        self._calls.do(lambda now: self._leave_queue())
        if self.attempt is not None:
            self._calls.settle(self.attempt, Outcome.CANCELLED)

    def _leave_queue(self) -> None:
        if self._ticket is not None:
            self._calls.pool.admission.leave(self._ticket)

    def end(self, outcome: Outcome) -> None:
        """The call has run."""
        attempt = self.attempt
        assert attempt is not None
        if self._client:
            # Of most successes the client is not recorded. A success after another replica has failed is
            # recorded: it shows that the fault was not the client's.
            if self._tried:
                attempt.monitor()
            if outcome is not Outcome.SUCCESS or attempt.mode == MONITORED:
                attempt.source = ClientSource(client_number(self._client), next(self._calls.numbers))
        self._calls.settle(attempt, outcome)

    # Waiter: called by the queue, under the lock.

    def admit(self, now: float, patient: bool) -> bool:
        pool, ticket = self._calls.pool, self._ticket
        assert ticket is not None
        turn = DEQUEUED if patient else ANY_SLOT
        found = pool.admission.look(
            ticket, lambda: pool.begin(self._work, now, self._tried, turn, ticket.since, self._hashes)
        )
        if isinstance(found, Attempt):
            self.attempt = found
            pool.admission.found(ticket, now)
        elif found.max_wait_s:
            return False
        else:
            self.rejection = found
            pool.admission.leave(ticket)
        self.on_decided()
        return True

    def timed_out(self, now: float) -> None:
        assert self._ticket is not None
        waited = f"{now - self._ticket.since:.3g} s"
        words = f"no replica had a free slot for the call within {waited}"
        self.rejection = Rejection("queue_timeout", words, self._calls.pool.admission.retry_after())
        self.on_decided()

    def preempted(self, now: float) -> None:
        self.rejection = Rejection(
            "queue_full", "the queue is full, and a call of a client with less in it took its place", None
        )
        self.on_decided()


def _do_nothing() -> None:
    """The default callback: does nothing."""
