"""Whose fault failures are: one client's requests, or the replica's."""

import os
from random import Random

import pytest

from routing.balancing.attempt.attempt import MONITORED, OPEN, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier.poison_clients import MOST, PoisonClients, telling_length
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.client_source import MOST_CLIENTS, ClientSource, FailureRun
from routing.shared.shm_counters import SharedCounters


class Traffic:
    """Clients' requests at a pool, as an exchange sends them: whose they were is told where they fail, and
    where the pool asks for it."""

    def __init__(self, *pools: Pool) -> None:
        self.pools = pools
        self.now = 1.0
        self.sent = 0
        self.watched = 0

    def send(self, client, request=0, fails_at=(), at="", outcome=Outcome.FAILED, replays=0):
        """One request. ``fails_at``: replicas that fail on it; ``at``: the one it goes to, else where the
        strategy sends it, as also while it is out; ``replays``: how often another one may be asked."""
        pool = self.pools[self.sent % len(self.pools)]
        self.sent += 1
        self.now += 0.01
        source = ClientSource(client, request or 1000 + self.sent)
        tried = ()
        if at:
            pool._pick = lambda found, *_: next((r for r in found if r.name == at), found[0])
        else:
            pool._pick = pool.strategy.pick
        for _ in range(1 + replays):
            attempt = pool.begin(1.0, self.now, tried)
            assert isinstance(attempt, Attempt)
            self.watched += attempt.mode == MONITORED
            failed = attempt.replica.name in fails_at
            if failed or attempt.mode == MONITORED:
                attempt.source = source
            attempt.settle(outcome if failed else Outcome.SUCCESS, self.now + 0.002)
            if not failed:
                return
            tried = (*tried, attempt.replica)

    def out(self):
        for pool in self.pools:
            pool.refresh(self.now + 0.2)
        return [replica.name for replica in self.pools[0].replicas if replica.ejection.until]


ALL = ("r0", "r1", "r2", "r3")
APP, POISON, OTHER = 1, 2, 3


@pytest.fixture(params=["round_robin", "least_expected_work"])
def pool(make_pool, request):
    return make_pool(4, strategy=request.param)


def test_one_clients_requests_that_fail_everywhere_eject_nobody(pool):
    """Ten of its requests to one of others, each of them another request, so that rows are long."""
    traffic = Traffic(pool)
    for i in range(600):
        if i % 11:
            traffic.send(POISON, fails_at=ALL)
        else:
            traffic.send(APP)
    assert traffic.out() == []
    assert max(replica.ejection.count for replica in pool.replicas) == 0


def test_nor_do_they_where_they_are_all_that_there_is(pool):
    traffic = Traffic(pool)
    for _ in range(200):
        traffic.send(POISON, fails_at=ALL)
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


@pytest.mark.parametrize("addresses", [2, 9])
def test_nor_do_they_from_several_addresses(pool, addresses):
    """A third of all requests, among those of twenty clients."""
    traffic, rng = Traffic(pool), Random(5)
    for at in ALL:
        for address in range(addresses):
            traffic.send(100 + address, fails_at=ALL, at=at)
            traffic.send(APP, at=at)
    for _ in range(3000):
        if rng.random() < 0.35:
            traffic.send(100 + rng.randrange(addresses), fails_at=ALL)
        else:
            traffic.send(rng.randrange(1, 21))
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


@pytest.mark.parametrize(("share", "poison"), [(0.5, 0.9), (0.8, 0.5)])
@pytest.mark.parametrize("replicas", [4, 16])
def test_nor_do_they_where_their_clients_send_good_ones_too(make_pool, replicas, share, poison):
    """Two clients make a good part of the traffic, and most of theirs fails anywhere; the rest succeeds."""
    pool = make_pool(replicas, strategy="round_robin")
    traffic, rng = Traffic(pool), Random(5)
    for _ in range(3000):
        if rng.random() < share:
            everywhere = [one.name for one in pool.replicas] if rng.random() < poison else ()
            traffic.send(101 + rng.randrange(2), fails_at=everywhere)
        else:
            traffic.send(rng.randrange(1, 21))
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


def broken_among_poison(pool, share):
    """Two clients, of whose requests a half fail anywhere, make so much of the traffic; then ``r1`` breaks.
    How many requests it fails until it is out."""
    traffic, rng = Traffic(pool), Random(5)
    everywhere = [one.name for one in pool.replicas]

    def send(broken):
        if rng.random() < share:
            traffic.send(101 + rng.randrange(2), fails_at=everywhere if rng.random() < 0.5 else broken)
        else:
            traffic.send(rng.randrange(1, 21), fails_at=broken)

    for _ in range(800):
        send(())
    assert traffic.out() == []
    state, before = pool.replicas[1].ejection, pool.replicas[1].failed
    while not state.until:
        send(("r1",))
    return pool.replicas[1].failed - before


@pytest.mark.parametrize(("share", "most"), [(0.0, 5), (0.2, 8), (0.8, 16)])
@pytest.mark.parametrize("replicas", [4, 16])
def test_a_replica_that_breaks_among_poison_is_found(make_pool, replicas, share, most):
    assert broken_among_poison(make_pool(replicas, strategy="round_robin"), share) <= most


def test_of_two_that_break_one_does_not_excuse_the_other(make_pool):
    """Both clients fail at both, and a third of what the others answer are failures."""
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    rng = Random(5)
    while len(traffic.out()) < 2:
        traffic.send(rng.choice((APP, OTHER)), fails_at=("r1", "r2"))
    assert max(replica.failed for replica in pool.replicas) <= 6


@pytest.mark.parametrize("clients", [1, 20])
def test_a_broken_replica_is_ejected_among_poison_of_several_addresses(make_pool, clients):
    """What suspects have of a row neither counts nor breaks it."""
    pool = make_pool(4, strategy="round_robin")
    traffic, rng = Traffic(pool), Random(5)
    for _ in range(400):
        if rng.random() < 0.3:
            traffic.send(rng.choice((101, 102)), fails_at=ALL)
        else:
            traffic.send(rng.randrange(1, 1 + clients), fails_at=("r1",))
        if traffic.out():
            break
    assert traffic.out() == ["r1"]
    assert traffic.sent < (50 if clients > 1 else 200)


@pytest.mark.parametrize("clients", [2, 20])
def test_two_broken_replicas_are_ejected_though_everybody_fails_at_both(make_pool, clients):
    """They are seen to succeed at the others."""
    pool = make_pool(4, strategy="round_robin")
    traffic, rng = Traffic(pool), Random(5)
    for _ in range(400):
        traffic.send(rng.randrange(1, 1 + clients), fails_at=("r1", "r2"))
        if len(traffic.out()) == 2:
            break
    assert traffic.out() == ["r1", "r2"]
    assert traffic.sent < 80


def test_suspects_failures_do_not_fill_up_a_row_of_others(make_pool):
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for at in ("r2", "r3"):
        for suspect in (101, 102):
            traffic.send(suspect, fails_at=ALL, at=at)
    for client in (APP, 101, OTHER, 102, APP, 101, OTHER, 102):
        traffic.send(client, fails_at=ALL, at="r1")
    assert traffic.out() == []
    traffic.send(APP, fails_at=ALL, at="r1")
    assert traffic.out() == ["r1"]


def test_more_clients_than_are_told_apart_in_a_row_are_as_one_unknown():
    row = FailureRun()
    for client in range(1, 10 * MOST_CLIENTS):
        row.add(ClientSource(client, client))
    assert len(row.clients) == MOST_CLIENTS + 1
    assert sum(part.failures for part in row.clients.values()) == 10 * MOST_CLIENTS - 1


def test_one_request_again_and_again_ejects_at_most_where_it_began(pool):
    """By its key it comes to one replica, and is sent there until that one is out."""
    traffic = Traffic(pool)
    for at in ALL:
        for _ in range(40):
            traffic.send(POISON, request=7, fails_at=ALL, at=at)
        for client in (APP, OTHER):
            for other in ALL:
                traffic.send(client, at=other)
    assert [replica.ejection.count for replica in pool.replicas] == [1, 0, 0, 0]


def test_one_request_on_several_replicas_counts_as_one_fault(make_pool):
    """Each is sent to three, as retries are, and nobody succeeds in between."""
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for _ in range(40):
        traffic.send(POISON, fails_at=ALL, replays=2)
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


def test_a_poisonous_request_among_good_ones_of_one_address_ejects_nobody(pool):
    """Without keys, behind one address: two of three requests are the poison."""
    traffic = Traffic(pool)
    for i in range(900):
        traffic.send(APP, request=7 if i % 3 else 0, fails_at=ALL if i % 3 else ())
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


@pytest.mark.parametrize("suspects", [0.0, 0.2])
def test_various_failures_of_one_address_on_all_replicas_eject_nobody(pool, suspects):
    """Nor do they where suspects' failures stand between them."""
    traffic = Traffic(pool)
    rng = Random(5)
    for _ in range(2000):
        if rng.random() < suspects:
            traffic.send(rng.choice((101, 102)), fails_at=ALL)
        traffic.send(APP, fails_at=ALL if rng.random() < 0.5 else ())
    assert sum(replica.ejection.count for replica in pool.replicas) == 0


@pytest.mark.parametrize("request_number", [0, 7], ids=["various", "always the same"])
def test_broken_replicas_are_ejected_where_all_requests_come_from_one_client(pool, request_number):
    """Two of them at once, so that its requests fail at several replicas."""
    traffic = Traffic(pool)
    for _ in range(400):
        traffic.send(APP, request=request_number, fails_at=("r1", "r2"))
        if len([replica for replica in pool.replicas if replica.ejection.until]) == 2:
            break
        # Penalties would keep traffic away for seconds.
        traffic.send(APP, request=request_number, fails_at=("r1", "r2"), at="r1")
        traffic.send(APP, request=request_number, fails_at=("r1", "r2"), at="r2")
    assert traffic.out() == ["r1", "r2"]
    assert traffic.sent < 100


def test_failures_of_several_clients_eject_at_five(make_pool):
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for i in range(5):
        traffic.send(APP if i % 2 else OTHER, fails_at=("r1",), at="r1")
    assert traffic.out() == ["r1"]


def test_refused_connections_eject_at_five_whoever_was_refused(make_pool):
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for _ in range(5):
        traffic.send(APP, request=7, fails_at=("r1",), at="r1", outcome=Outcome.REFUSED)
    assert traffic.out() == ["r1"]


def test_a_client_that_can_go_nowhere_else_ejects_with_twice_as_many(make_pool, caplog):
    caplog.set_level("INFO", logger="routing.balancing.outlier.outlier_detector")
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for _ in range(9):
        traffic.send(APP, request=7, fails_at=("r1",), at="r1")
    assert traffic.out() == []
    words = "replica r1 of fleet digits is not ejected for 5 failures in a row: all of them one request"
    assert caplog.messages == [words]
    traffic.send(APP, request=7, fails_at=("r1",), at="r1")
    assert traffic.out() == ["r1"]


def test_a_suspects_request_decides_nothing_about_a_replica_on_probation(make_pool):
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for at in ("r2", "r3"):
        traffic.send(POISON, fails_at=ALL, at=at)
    for client in (APP, OTHER, APP, OTHER, APP):
        traffic.send(client, fails_at=("r1",), at="r1")
    state = pool.replicas[1].ejection
    traffic.now = state.until
    probe = pool.begin(1.0, traffic.now)
    assert probe.probe
    probe.source = ClientSource(POISON, 99)
    probe.settle(Outcome.FAILED, traffic.now)
    assert state.consecutive_ejections == 1
    again = pool.begin(1.0, traffic.now + 0.1)
    assert again.probe
    again.settle(Outcome.SUCCESS, traffic.now + 0.1)
    assert not state.until


def test_a_replica_that_one_client_alone_finds_failing_often_is_no_outlier(make_pool):
    """Half of what comes to r0 is its poison; nothing of it goes elsewhere."""
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for i in range(400):
        at = ALL[i % 4]
        traffic.send(APP, at=at)
        if at == "r0":
            traffic.send(POISON, fails_at=("r0",), at="r0")
    assert pool.replicas[0].ejection.count == 0
    for i in range(400):
        traffic.send((APP, OTHER)[i % 2], at=ALL[i % 4], fails_at=("r0",) if i % 8 < 4 else ())
    assert traffic.out() == ["r0"]


def test_nobody_is_asked_who_he_is_unless_a_row_is_held_against_somebody(make_pool):
    pool = make_pool(4, strategy="round_robin")
    traffic = Traffic(pool)
    for i in range(400):
        traffic.send(APP if i % 19 else POISON, fails_at=() if i % 19 else ALL)
    assert traffic.watched == 0
    for _ in range(5):
        traffic.send(POISON, fails_at=ALL, at="r1")
    traffic.send(APP)
    assert pool._outlier_detector.monitoring
    assert pool.begin(1.0, traffic.now).mode == MONITORED
    pool.refresh(traffic.now + 60.0)
    assert pool.begin(1.0, traffic.now + 60.0).mode == OPEN


def test_what_is_remembered_is_bounded():
    suspects = PoisonClients()
    for who in range(1, 10 * MOST):
        suspects.failed(who, 1, 1.0)
        suspects.failed(who, 2, 1.0)
    assert len(suspects) == MOST
    assert suspects.is_suspect(10 * MOST - 1, 2.0)
    assert not suspects.is_suspect(10 * MOST - 1, 400.0)


def test_how_long_a_row_has_to_be():
    assert [telling_length(5, share) for share in (0.0, 0.2, 0.5, 0.9)] == [5, 8, 17, 110]
    assert telling_length(5, 1.0) == float("inf")


# --- several workers of a host --------------------------------------------------------------------


@pytest.fixture
def workers(make_snapshot):
    block = SharedCounters.create(workers=4, replicas=16)
    snapshot = make_snapshot(4, strategy="round_robin")
    yield [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in range(4)]
    os.close(block.fd)


def test_what_one_worker_has_seen_fail_elsewhere_holds_in_all(workers):
    """Each worker sees the client at one replica only."""
    for index, pool in enumerate(workers):
        traffic = Traffic(pool)
        traffic.now = 1.0 + index
        for _ in range(30):
            traffic.send(POISON, fails_at=ALL, at=ALL[index])
    counts = [sum(pool.replicas[index].ejection.count for pool in workers) for index in range(4)]
    assert counts == [1, 0, 0, 0]


def test_a_success_that_one_worker_has_seen_counts_in_all(workers):
    first, second = Traffic(workers[0]), Traffic(workers[1])
    for at in ("r0", "r3") * 40:
        first.send(OTHER, at=at)
    for at in ("r1", "r2"):
        first.send(APP, fails_at=(at,), at=at)
    for _ in range(5):
        second.now = first.now
        second.send(APP, fails_at=("r2",), at="r2")
    assert second.out() == []
    first.now = second.now + 1.0
    for _ in range(5):
        first.send(APP, fails_at=("r1",), at="r1")
    assert first.out() == []
    workers[0].begin(1.0, first.now + 0.1).settle(Outcome.CANCELLED, first.now + 0.1)
    watched = workers[0].begin(1.0, first.now + 0.2)
    watched.source = ClientSource(APP, 5)
    watched.settle(Outcome.SUCCESS, first.now + 0.2)
    second.now = first.now + 0.3
    second.send(APP, fails_at=("r2",), at="r2")
    assert second.out() == ["r2"]
