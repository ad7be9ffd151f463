"""Who waits and who is next: one line, lines of several workers, and real processes that share a limit."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as draw
from msgspec.structs import replace

from routing.balancing.admission.admission_queue import WAITING, AdmissionQueue, QueueWaker
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.request_queue import RequestQueue
from routing.balancing.admission.service_rate import ServiceRate
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import ANY_SLOT, DEQUEUED, NEW, Pool
from routing.contract.telemetry import FleetCounters
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture
from tests.routing.shared.test_shm_counters import in_processes, sum_at_one_moment


class Request:
    """One that waits; it takes a place when there is one."""

    def __init__(
        self, pool: Pool, now: float, rank: int = 1, limit_s: float = 100.0, adapters: tuple[str, ...] = ()
    ) -> None:
        self.pool = pool
        self.adapters = adapters
        self.attempt: Attempt | None = None
        self.ended = ""
        self.ticket = Ticket(self, rank, now, now + limit_s, particular=bool(adapters), needs=adapters)
        found = self.begin(now, NEW)
        if isinstance(found, Attempt):
            self.attempt = found
        else:
            self.refused: Rejection | None = pool.admission.join(self.ticket, found.preferred, now)

    def begin(self, now: float, turn: int) -> Attempt | Rejection:
        if self.adapters:
            return self.pool.begin_for_adapters(self.adapters, 1.0, now, (), turn)
        return self.pool.begin(1.0, now, (), turn)

    def admit(self, now: float, patient: bool) -> bool:
        found = self.pool.admission.look(self.ticket, lambda: self.begin(now, DEQUEUED))
        if isinstance(found, Rejection):
            return False
        self.pool.admission.found(self.ticket, now)
        self.attempt = found
        return True

    def timed_out(self, now: float) -> None:
        self.ended = "late"

    def preempted(self, now: float) -> None:
        self.ended = "displaced"

    def end(self, now: float) -> None:
        assert self.attempt is not None
        self.attempt.settle(Outcome.SUCCESS, now)


class Calls(QueueWaker):
    """Notes who is called."""

    def __init__(self) -> None:
        self.soon = 0
        self.woken: list[int] = []

    def serve_soon(self, admission: AdmissionQueue) -> None:
        self.soon += 1

    def wake(self, worker: int) -> None:
        self.woken.append(worker)


# --- the line --------------------------------------------------------------------------------------


@given(
    steps=draw.lists(
        draw.tuples(draw.integers(0, 3), draw.integers(0, 2), draw.integers(0, 9), draw.integers(0, 9))
    )
)
def test_a_line_is_in_the_order_of_class_and_coming_whatever_happens(steps):
    line, here, nobody = RequestQueue(), [], object()
    for what, rank, since, limit in steps:
        if what or not here:
            ticket = Ticket(nobody, rank, since + 1.0, since + 1.0 + limit)
            line.join(ticket)
            here.append(ticket)
        else:
            gone = here.pop(since % len(here))
            assert line.leave(gone)
            assert not line.leave(gone)
        expected = sorted((one.rank, one.since) for one in here)
        assert [(one.rank, one.since) for one in line] == expected
        assert len(line) == len(here) == sum(line.counts)
        for of in range(3):
            assert line.eldest(of) == min((one.since for one in here if one.rank == of), default=0.0)
        assert line.since == min((one.since for one in here), default=0.0)
        due = {one for one in here if one.deadline <= 9}
        assert (line.overdue(9) in due) if due else line.overdue(9) is None


def test_thousands_that_leave_before_their_time_leave_nothing_behind():
    line = RequestQueue()
    for number in range(10_000):
        ticket = Ticket(object(), 1, number, 1e9)
        line.join(ticket)
        line.leave(ticket)
    assert len(line._deadlines) < 100


def test_the_rate_follows_what_ends():
    rate = ServiceRate()
    assert rate.retry_after(3, otherwise=7.0) == 7.0
    for tenth in range(300):
        rate.observe(tenth * 2.0, 1.0 + tenth / 10)
    assert rate.per_s == pytest.approx(20, rel=0.02)
    assert rate.wait_for(40) == pytest.approx(2, rel=0.02)
    assert (rate.retry_after(1, 7.0), rate.retry_after(1e6, 7.0)) == (1.0, 60.0)
    before = rate.per_s
    rate.observe(3.0, 40.0)
    assert rate.per_s == before
    rate.observe_idle(3.0, 44.0)
    assert rate.known
    rate.observe_idle(4.0, 46.0)
    assert not rate.known


def test_what_ends_while_nobody_waits_is_no_rate(make_pool, send):
    """A fleet that is asked once a second does not take ten seconds for ten."""
    pool = make_pool(1, max_concurrency=1)
    for second in range(1, 60):
        send(pool, float(second))
    assert not pool.admission.rate.known


# --- several workers ---------------------------------------------------------------------------------


block = block_fixture(workers=3, replicas=8)


@pytest.fixture
def workers(block, make_snapshot):
    """The same fleet in two workers: one replica with one place. Each notes its calls."""
    snapshot = make_snapshot(1, strategy="least_connections", max_concurrency=1, queue={"size": 3})
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in (0, 1)]
    for pool in pools:
        pool.admission.waker = Calls()
        pool.refresh(1.0)
    return pools


def test_a_place_that_one_worker_has_taken_is_taken_in_the_other(workers):
    one, two = workers
    first, second = Request(one, 1.0), Request(two, 1.0)
    assert first.attempt
    assert second.attempt is None
    first.end(1.1)
    assert two.admission.waker.soon == 1
    assert one.admission.waker.woken == [1]
    two.admission.serve(1.1)
    assert second.attempt
    assert [replica.load for pool in workers for replica in pool.replicas][1] == 1


def test_whoever_has_waited_longest_is_called_whichever_worker_has_it(workers):
    one, two = workers
    holder = Request(one, 1.0)
    younger, older = Request(one, 1.2), Request(two, 1.1)
    holder.end(2.0)
    assert one.admission.waker.woken == [1]
    # A look of its own does not overtake either, and says so again.
    one.admission.serve(2.0)
    assert younger.attempt is None
    two.admission.serve(2.0)
    assert older.attempt
    two.admission.waker.woken.clear()
    older.end(3.0)
    assert two.admission.waker.woken == [0]
    one.admission.serve(3.0)
    assert younger.attempt


def test_a_higher_class_goes_before_whichever_worker_has_it(workers):
    one, two = workers
    holder = Request(one, 1.0)
    Request(one, 1.1)
    high = Request(two, 1.5, rank=0)
    holder.end(2.0)
    assert one.admission.waker.woken == [1]
    two.admission.serve(2.0)
    assert high.attempt


def test_a_worker_that_does_not_answer_keeps_nobody_waiting(workers):
    one, two = workers
    holder = Request(one, 1.0)
    Request(two, 1.1)
    mine = Request(one, 1.2)
    holder.end(2.0)
    one.admission.serve(2.0, yields=False)
    assert mine.attempt


def test_a_newcomer_lines_up_behind_another_workers(workers):
    one, two = workers
    holder = Request(one, 1.0)
    waits = Request(two, 1.1)
    holder.attempt.settle(Outcome.SUCCESS, 1.2)
    newcomer = Request(one, 1.201)
    assert newcomer.attempt is None
    one.admission.serve(1.201)
    two.admission.serve(1.201)
    assert waits.attempt
    assert newcomer.attempt is None


def test_a_newcomer_does_not_take_a_place_that_another_waits_for_where_waiting_is_weighed(make_snapshot):
    pool = Pool(make_snapshot(1, max_concurrency=1, queue={"size": 3}), None, Random(0))
    assert pool.strategy.weighs_waiting
    holder = Request(pool, 1.0)
    waits = Request(pool, 1.1)
    holder.end(1.2)
    newcomer = Request(pool, 1.2)
    assert newcomer.attempt is None
    pool.admission.serve(1.2)
    assert waits.attempt


def test_the_queues_size_is_the_hosts(workers):
    one, two = workers
    Request(one, 1.0)
    waiting = [Request(pool, 1.1) for pool in (one, two, two)]
    assert all(request.refused is None for request in waiting)
    refused = Request(one, 1.2).refused
    assert refused is not None
    assert refused.code == "queue_full"
    two.admission.leave(waiting[1].ticket)
    assert Request(one, 1.3).refused is None


def test_a_dead_workers_waiters_hold_nobody_up(workers, block):
    one, two = workers
    holder = Request(one, 1.0)
    Request(two, 1.1)
    mine = Request(one, 1.2)
    block.clear_worker(1)
    holder.end(2.0)
    assert one.admission.waker.soon
    one.admission.serve(2.0)
    assert mine.attempt
    one.refresh(3.0)
    assert not one.admission.has_waiters


def test_one_that_needs_an_adapter_holds_up_no_others_in_any_worker(block, make_snapshot):
    """The adapter is served at the first of two replicas."""
    plain = make_snapshot(2, strategy="least_connections", max_concurrency=1, queue={"size": 9})
    served = [replace(spec, adapters=["x"][:room]) for spec, room in zip(plain.replicas, (1, 0), strict=True)]
    snapshot = replace(plain, adapters=["x"], replicas=served)
    one, two = (Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in (0, 1))
    for pool in (one, two):
        pool.admission.waker = Calls()
        pool.refresh(1.0)
    there = Request(two, 1.0, adapters=("x",))
    waits = Request(two, 1.1, adapters=("x",))
    assert there.attempt
    assert waits.attempt is None
    one.refresh(1.2)
    assert (one.admission.has_waiters, one.admission.anybody_waits) == (False, True)
    other = Request(one, 1.2)
    assert other.attempt, "it does not line up"
    behind = Request(one, 1.3)
    assert behind.attempt is None
    one.admission.waker.soon = 0
    one.admission.waker.woken.clear()
    other.end(2.0)
    assert one.admission.waker.soon, "it does not yield to one for which the slot is of no use"
    assert one.admission.waker.woken == [1], "which is asked as well"
    two.admission.serve(2.0)
    assert waits.attempt is None
    one.admission.serve(2.0)
    assert behind.attempt
    there.end(3.0)
    two.admission.serve(3.0)
    assert waits.attempt
    assert waits.attempt.replica.name == there.attempt.replica.name


def test_two_that_find_nothing_do_not_call_each_other_for_ever(workers):
    one, two = workers
    Request(one, 1.0)
    for pool in workers:
        request = Request(pool, 1.1)
        request.ticket.particular = True
        pool.admission.waker.woken.clear()
    for _ in range(3):
        for pool in workers:
            pool.admission.serve(1.2)
    assert len(one.admission.waker.woken) + len(two.admission.waker.woken) <= 3


def test_who_was_woken_does_not_wake_back(workers):
    """Else two workers of which each has the first of some fleet call each other for ever."""
    one, two = workers
    Request(one, 1.0)
    Request(two, 1.1)
    Request(one, 1.2)
    one.admission.waker.woken.clear()
    one.admission.serve(1.3, woken=True)
    assert one.admission.waker.woken == []


def test_a_fleet_that_comes_back_while_its_requests_go_on_is_counted_again_after_them(block, make_snapshot):
    snapshot = make_snapshot(1, strategy="least_connections", max_concurrency=2)
    shared = [SharedCounters.attach(block.fd, worker) for worker in (0, 1)]
    before = [Pool(snapshot, one, Random(1)) for one in shared]
    held = [Request(pool, 1.0) for pool in before]
    for pool in before:
        pool.close()
    after = [Pool(snapshot, one, Random(1)) for one in shared]
    for request in held:
        request.end(1.1)
    for pool in after:
        pool.refresh(1.2)
    found = [after[number % 2].begin(1.0, 1.3, (), DEQUEUED) for number in range(4)]
    assert sum(isinstance(one, Attempt) for one in found) == 2


def test_what_waits_for_a_replica_counts_in_every_workers_choice(block, make_snapshot):
    snapshot = make_snapshot(2, max_concurrency=1)
    one, two = (Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in (0, 1))
    held = [Request(one, 1.0), Request(one, 1.0)]
    waiting = [Request(one, 1.1), Request(one, 1.1)]
    assert {request.ticket.target.name for request in waiting} == {"r0", "r1"}
    two.refresh(1.2)
    assert [(r.load, r.load_work) for r in two.replicas] == [(2, 2.0), (2, 2.0)]
    for request in waiting:
        one.admission.leave(request.ticket)
    for request in held:
        request.end(1.3)
    two.refresh(1.4)
    assert [(r.load, r.load_work) for pool in (one, two) for r in pool.replicas] == [(0, 0.0)] * 4


# --- real processes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["least_connections", "least_expected_work"])
def test_racing_processes_never_pass_a_replicas_limit(block, make_snapshot, strategy):
    """Each counts what it was granted in cells of its own, apart from those that are claimed."""
    snapshot = make_snapshot(2, strategy=strategy, max_concurrency=3, slow_start_s=0)

    def worker(number):
        def run():
            shared, rng = SharedCounters.attach(block.fd, number), Random(number)
            pool = Pool(snapshot, shared, rng)
            granted = {replica.name: shared.claim(f"granted {replica.name}") for replica in pool.replicas}
            held, done, end = [], 0, time.monotonic() + 20
            while done < 3000 and time.monotonic() < end:
                found = pool.begin(1.0, time.monotonic(), (), ANY_SLOT)
                if isinstance(found, Attempt):
                    held.append(found)
                    cells = granted[found.replica.name]
                    cells.write(WAITING, cells.view[cells.own + WAITING] + 1)
                    assert sum_at_one_moment(cells, WAITING) <= 3
                if held and (isinstance(found, Rejection) or rng.random() < 0.5):
                    attempt = held.pop(rng.randrange(len(held)))
                    cells = granted[attempt.replica.name]
                    cells.write(WAITING, cells.view[cells.own + WAITING] - 1)
                    attempt.settle(Outcome.SUCCESS, time.monotonic())
                    done += 1
            assert done == 3000

        return run

    assert in_processes(*map(worker, range(3))) == [0, 0, 0]


def test_counters_of_a_line():
    counters = FleetCounters(name="f")
    admission = AdmissionQueue("f", counters, None)
    admission.join(Ticket(object(), 1, 5.0, 9.0), None, 5.0)
    admission.report(7.5)
    assert (counters.waiting, counters.oldest_wait_s, counters.queued) == (1, 2.5, 1)


def test_who_waits_for_a_replica_gets_its_place_however_many_before_him_wait_for_another(make_pool):
    """Large requests would rather wait for the fast replica than take the slow one's free place."""
    replicas = [{"weight": 100.0, "max_concurrency": 1}, {"weight": 1.0, "max_concurrency": 1}]
    pool = make_pool(replicas, strategy="least_expected_work", parameters={"kappa": 0.0})
    fast, slow = pool.replicas
    held = pool.begin(1.0, 1.0)
    waiting = [Request(pool, 1.0 + number / 1000) for number in range(100)]
    assert (held.replica, {one.ticket.target for one in waiting}) == (fast, {fast})
    # The last of them has been led to believe that the other one is better.
    last = Request(pool, 1.5)
    pool.admission._set_target(last.ticket, slow)
    taken: list[float] = []
    last.admit = lambda now, patient: not taken.append(now)
    pool.admission.serve(1.6)
    assert taken == [1.6]
    assert all(one.attempt is None for one in waiting)
