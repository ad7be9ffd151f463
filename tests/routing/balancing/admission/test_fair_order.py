"""Clients take turns by work: within one queue, and over the workers of a host."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from routing.balancing.admission.admission_queue import AdmissionQueue, QueueWaker
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.request_queue import RequestQueue
from routing.balancing.admission.start_tags import FLOWS, StartTags
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import DEQUEUED, NEW, Pool
from routing.contract.telemetry import FleetCounters
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

HEAVY, LIGHT = 1, 2


def ticket(client: int, since: float, charge: float = 1.0, rank: int = 1) -> Ticket:
    return Ticket(object(), rank, since, since + 100.0, client=client, charge=charge)


def serve(line: RequestQueue) -> Ticket:
    first = line.first
    assert first is not None
    line.leave(first, served=True)
    return first


def line_of(*tickets: Ticket) -> RequestQueue:
    line = RequestQueue()
    for one in tickets:
        line.join(one)
    return line


def test_a_client_that_asks_little_is_next_however_much_another_has_waiting():
    line = line_of(*(ticket(HEAVY, 1.0 + number) for number in range(100)))
    for _ in range(10):
        serve(line)
    line.join(ticket(LIGHT, 200.0))
    assert serve(line).client == LIGHT
    assert serve(line).client == HEAVY


def test_turns_go_by_work_and_not_by_count():
    large = (ticket(HEAVY, 1.0 + number, charge=10.0) for number in range(100))
    line = line_of(*large, *(ticket(LIGHT, 200.0 + number) for number in range(100)))
    served = [serve(line).client for _ in range(88)]
    assert served.count(HEAVY) == pytest.approx(8, abs=1)


def test_what_a_client_has_not_asked_for_it_has_not_saved_up():
    line = line_of(*(ticket(HEAVY, 1.0 + number) for number in range(50)))
    for _ in range(40):
        serve(line)
    for number in range(10):
        line.join(ticket(LIGHT, 100.0 + number))
    assert [serve(line).client for _ in range(20)].count(LIGHT) == pytest.approx(10, abs=1)
    assert not len(line)


def test_a_client_that_comes_back_at_once_has_not_shaken_off_what_it_was_served():
    """It never has two requests waiting, and gets its share, not every second slot before all others."""
    line = line_of(*(ticket(client, 1.0 + number) for client in (3, 4, 5) for number in range(30)))
    served = []
    line.join(ticket(HEAVY, 50.0))
    for number in range(40):
        served.append(serve(line).client)
        if served[-1] == HEAVY:
            line.join(ticket(HEAVY, 60.0 + number))
    assert served.count(HEAVY) == pytest.approx(10, abs=1)


def test_who_leaves_without_a_slot_is_not_charged():
    line, gone = RequestQueue(), [ticket(HEAVY, 1.0 + number, charge=50.0) for number in range(5)]
    for one in (*gone, ticket(HEAVY, 8.0), ticket(LIGHT, 9.0)):
        line.join(one)
    for one in gone:
        assert line.leave(one)
    assert [serve(line).client for _ in range(2)] == [HEAVY, LIGHT]


def test_those_behind_one_that_waits_on_are_asked_as_if_it_had_been_served():
    line = line_of(*(ticket(HEAVY, 1.0 + number) for number in range(3)), ticket(LIGHT, 9.0))
    assert [one.client for one in line] == [HEAVY, LIGHT, HEAVY, HEAVY]
    # Whoever is served meanwhile is passed, whoever comes meanwhile waits for the next look.
    seen = []
    for one in line:
        seen.append(one.since)
        if one.client == LIGHT:
            line.leave(one, served=True)
            line.join(ticket(LIGHT, 10.0))
    assert seen == [1.0, 9.0, 2.0, 3.0]


STEPS = draw.lists(
    draw.tuples(draw.sampled_from(["join", "join", "serve", "serve", "leave"]), draw.integers(0, 3),
                draw.integers(1, 8)),
    max_size=120,
)  # fmt: skip


@given(steps=STEPS)
def test_of_two_clients_that_wait_neither_gets_more_than_two_requests_ahead(steps):
    """Goyal et al., theorem 1: in units of work, the largest request of the one and of the other."""
    line, here, largest = RequestQueue(), [], dict.fromkeys(range(4), 0.0)
    got: dict[tuple[int, int], float] = {}
    """Of two clients: how much more the first was served since both wait."""
    for number, (what, client, charge) in enumerate(steps):
        if what == "join":
            here.append(ticket(client, float(number), float(charge)))
            line.join(here[-1])
            largest[client] = max(largest[client], charge)
        elif here:
            gone = line.first if what == "serve" else here[charge % len(here)]
            line.leave(gone, served=what == "serve")
            here.remove(gone)
            if what == "serve":
                for pair in got:
                    got[pair] += gone.charge * ((pair[0] == gone.client) - (pair[1] == gone.client))
        waiting = {one.client for one in here}
        got = {(a, b): got.get((a, b), 0.0) for a in waiting for b in waiting if a < b}
        for (a, b), ahead in got.items():
            assert abs(ahead) <= largest[a] + largest[b]
        assert sorted(one.since for one in line) == [one.since for one in here]
        firsts = list(line)[:1]
        assert firsts == ([line.first] if here else [])


def test_thousands_that_wait_make_a_change_no_slower_than_their_logarithm(monkeypatch):
    compared = [0]
    before = Ticket.__lt__

    def counting(one, other):
        compared[0] += 1
        return before(one, other)

    monkeypatch.setattr(Ticket, "__lt__", counting)
    for clients in (1, 100):
        line = line_of(*(ticket(number % clients, float(number)) for number in range(10_000)))
        compared[0] = 0
        for number in range(100):
            serve(line)
            line.join(ticket(number % clients, 20_000.0 + number))
        assert compared[0] <= 100 * 2 * 15


# --- a full queue ------------------------------------------------------------------------------------


class Waits:
    """Counts how it was answered."""

    ended = ""

    def timed_out(self, now: float) -> None:
        self.ended = "late"

    def preempted(self, now: float) -> None:
        self.ended = "displaced"


def full(clients: list[int]) -> tuple[AdmissionQueue, list[Ticket]]:
    admission = AdmissionQueue("f", FleetCounters(name="f"), None)
    admission.size = len(clients)
    tickets = [Ticket(Waits(), 1, 1.0 + at, 99.0, client=client) for at, client in enumerate(clients)]
    for one in tickets:
        assert admission.join(one, None, 10.0) is None
    return admission, tickets


def test_a_client_that_fills_the_queue_does_not_keep_others_out():
    admission, tickets = full([HEAVY] * 4)
    for client, refused in ((LIGHT, False), (HEAVY, True), (LIGHT, False), (LIGHT, True)):
        found = admission.join(Ticket(Waits(), 1, 9.0, 99.0, client=client), None, 10.0)
        assert (found is not None) == refused
    assert [one.waiter.ended for one in tickets] == ["", "", "displaced", "displaced"]
    assert admission.queue.counts == [0, 4, 0]


def test_among_clients_that_have_as_much_waiting_nobody_is_displaced():
    admission, tickets = full([HEAVY, LIGHT, HEAVY, LIGHT])
    for client in (HEAVY, LIGHT):
        refused = admission.join(Ticket(Waits(), 1, 9.0, 99.0, client=client), None, 10.0)
        assert refused is not None
        assert refused.code == "queue_full"
    assert all(one.here for one in tickets)


def test_a_client_that_would_soon_be_served_is_not_refused_for_the_length_of_anothers_queue():
    admission, _ = full([HEAVY] * 40)
    admission.size = 99
    admission.rate.per_s, admission.rate.seen = 1.0, 100.0
    soon, late = (Ticket(Waits(), 1, 9.0, 20.0, client=client) for client in (LIGHT, HEAVY))
    refused = admission.join(late, None, 10.0)
    assert refused is not None
    assert refused.code == "queue_late"
    assert admission.join(soon, None, 10.0) is None


# --- several workers ---------------------------------------------------------------------------------


block = block_fixture(workers=3, replicas=64)


class Wakes(QueueWaker):
    """Each worker looks when it is woken, as the event loop would."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.due: list[tuple[AdmissionQueue, bool]] = []

    def serve_soon(self, admission: AdmissionQueue) -> None:
        self.due.append((admission, False))

    def wake(self, worker: int) -> None:
        self.due.append((self.pools[worker].admission, True))

    def run(self, now: float) -> None:
        while self.due:
            admission, woken = self.due.pop(0)
            admission.serve(now, woken=woken)


class Request:
    """Of a client; takes a slot when there is one."""

    def __init__(self, pool: Pool, client: int, now: float) -> None:
        self.pool, self.client = pool, client
        self.attempt: Attempt | None = None
        self.ticket = Ticket(self, 1, now, now + 900.0, client=client)
        found = pool.begin(1.0, now, (), NEW)
        if isinstance(found, Attempt):
            self.attempt = found
        else:
            assert pool.admission.join(self.ticket, found.preferred, now) is None

    def admit(self, now: float, patient: bool) -> bool:
        found = self.pool.admission.look(self.ticket, lambda: self.pool.begin(1.0, now, (), DEQUEUED))
        if isinstance(found, Rejection):
            return False
        self.pool.admission.found(self.ticket, now)
        self.attempt = found
        return True


@pytest.fixture
def workers(block, make_snapshot):
    """The same fleet in two workers: one replica with one slot."""
    snapshot = make_snapshot(1, strategy="least_connections", max_concurrency=1, queue={"size": 500})
    wakes = Wakes()
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in (0, 1)]
    wakes.pools = pools
    for pool in pools:
        pool.admission.waker = wakes
        pool.refresh(1.0)
    return pools, wakes


def ends(requests: list[Request], wakes: Wakes, now: float) -> Request:
    """The request in flight ends; who has the slot then."""
    (running,) = (one for one in requests if one.attempt is not None)
    requests.remove(running)
    running.attempt.settle(Outcome.SUCCESS, now)
    wakes.run(now)
    (following,) = (one for one in requests if one.attempt is not None)
    return following


def test_of_one_client_the_oldest_request_is_first_whichever_worker_has_it(workers):
    (one, two), wakes = workers
    rng = Random(3)
    requests = [Request(rng.choice((one, one, one, two)), HEAVY, 1.0 + at / 100) for at in range(60)]
    wakes.run(2.0)
    served = [ends(requests, wakes, 2.0 + at).ticket.since for at in range(59)]
    assert served == sorted(served)


def test_a_client_in_another_worker_waits_for_one_slot_only(workers):
    (one, two), wakes = workers
    requests = [Request(one, HEAVY, 1.0 + at / 100) for at in range(50)]
    wakes.run(2.0)
    for at in range(10):
        ends(requests, wakes, 2.0 + at)
    for at in range(3):
        requests.append(Request(two, LIGHT, 20.0 + at))
        wakes.run(20.0 + at)
        assert ends(requests, wakes, 20.5 + at).client == LIGHT
        assert ends(requests, wakes, 20.6 + at).client == HEAVY


def test_a_client_with_connections_in_all_workers_has_no_more_than_its_share(workers):
    (one, two), wakes = workers
    requests = [Request(pool, HEAVY, 1.0 + at / 100) for at in range(50) for pool in (one, two)]
    requests += [Request(two, LIGHT, 3.0 + at / 100) for at in range(50)]
    wakes.run(4.0)
    served = []
    for at in range(60):
        served.append(ends(requests, wakes, 4.0 + at).client)
        # On their timer.
        for pool in (one, two):
            pool.admission.serve(4.0 + at)
    assert served.count(LIGHT) == pytest.approx(30, abs=2)


# --- start tags --------------------------------------------------------------------------------------


def test_tags_are_the_largest_that_any_worker_has_written_and_never_too_small(block):
    tags = [StartTags("k", SharedCounters.attach(block.fd, worker)) for worker in (0, 1)]
    rng, most = Random(5), {}
    for _ in range(300):
        flow, tag = rng.randrange(FLOWS), rng.random() * 100
        rng.choice(tags).advance(flow, tag)
        most[flow] = max(tag, most.get(flow, 0.0))
    for flow, tag in most.items():
        assert tags[0].of(flow) == tags[1].of(flow) >= tag


def test_a_client_far_ahead_holds_up_hardly_any_other():
    tags = StartTags("k", None)
    tags.advance(4711, 1e6)
    rng = Random(5)
    flows = [rng.randrange(FLOWS) for _ in range(2000)]
    assert sum(tags.of(flow) > 0 for flow in flows if flow != 4711) <= 2


def test_the_tags_of_a_fleet_that_is_gone_are_given_back(block, make_snapshot):
    shared = SharedCounters.attach(block.fd, 0)
    before = block.used()
    pool = Pool(make_snapshot(1, max_concurrency=1), shared, Random(1))
    pool.refresh(1.0)
    held = [Request(pool, HEAVY, 1.0), Request(pool, HEAVY, 1.1)]
    assert block.used() > before + 2
    pool.admission.leave(held[1].ticket)
    held[0].attempt.settle(Outcome.SUCCESS, 2.0)
    pool.close()
    assert block.used() == before
