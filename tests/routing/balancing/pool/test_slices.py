"""A large pool is refreshed in slices: small steps, nothing left out, and what follows is as at once."""

from collections import Counter
from random import Random

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning import fleet_speed
from routing.balancing.outlier import census, outlier_detector
from routing.balancing.outlier.effective_weight import EffectiveWeights
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.refresh_cycle import PART, WHOLE
from routing.balancing.pool.refresh_slices import MOST_STEPS
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

MANY = 1000


block = block_fixture(workers=2, replicas=2 * MANY)


@pytest.fixture
def make(block, make_snapshot):
    """A worker's pool of so many replicas, refreshed in slices."""

    def pool(replicas=MANY, worker=0, in_slices=True, **policy):
        urls = [{"url": f"http://10.1.0.1:{n + 1}"} for n in range(replicas)]
        shared = None if worker is None else SharedCounters.attach(block.fd, worker)
        return Pool(make_snapshot(urls, **policy), shared, Random(1), in_slices=in_slices)

    return pool


@pytest.fixture
def looked_at(monkeypatch):
    """How many replicas each pass has looked at since it was last cleared, by pass."""
    counts = Counter()

    def counted(owner, name):
        real = getattr(owner, name)

        def method(self, replicas, *rest, **named):
            counts[name] += len(replicas)
            return real(self, replicas, *rest, **named)

        monkeypatch.setattr(owner, name, method)

    counted(outlier_detector.OutlierDetector, "review")
    counted(fleet_speed.FleetSpeed, "renew")
    counted(EffectiveWeights, "update")
    return counts


def send(pool, now, outcome=Outcome.SUCCESS):
    attempt = pool.begin(1.0, now)
    assert isinstance(attempt, Attempt)
    attempt.settle(outcome, now + 0.001)
    return attempt.replica


def until_refreshed(pool, now):
    """What a report has done: all slices that are due."""
    while pool.refresh_some(now):
        pass


def test_no_request_looks_at_more_than_a_few_and_all_are_looked_at_ten_times_a_second(make, looked_at):
    pool = make()
    send(pool, 1.0)
    looked_at.clear()
    begin, most = Counter(looked_at), 0
    for turn in range(2000):
        before = Counter(looked_at)
        send(pool, 1.01 + turn / 2000)
        most = max(most, (looked_at - before).total())
    assert 0 < most <= MOST_STEPS * PART < MANY
    cycles = {name: count / MANY for name, count in (looked_at - begin).items()}
    assert set(cycles) == {"review", "renew", "update"}
    assert all(8 <= count <= 10.5 for count in cycles.values()), cycles


def test_a_small_pool_is_refreshed_at_once(make, looked_at):
    pool = make(WHOLE)
    looked_at.clear()
    send(pool, 1.0)
    assert dict(looked_at) == {"review": WHOLE, "renew": WHOLE, "update": WHOLE}
    send(pool, 1.05)
    assert looked_at["review"] == WHOLE
    send(pool, 1.11)
    assert looked_at["review"] == 2 * WHOLE


def test_without_a_worker_that_completes_it_a_large_pool_is_refreshed_at_once(make, looked_at):
    pool = make(in_slices=False)
    looked_at.clear()
    send(pool, 1.0)
    assert looked_at["review"] == MANY


def test_where_requests_are_rare_reports_complete_a_cycle_in_slices(make, looked_at):
    pool = make()
    send(pool, 1.0)
    looked_at.clear()
    steps = 0
    while pool.refresh_some(2.0):
        steps += 1
    assert looked_at["review"] == looked_at["renew"] == MANY
    assert steps >= 3 * MANY / PART / MOST_STEPS - 1
    looked_at.clear()
    assert not pool.refresh_some(2.05)
    assert not looked_at, "it was refreshed lately"


def test_slices_come_to_the_same_as_at_once(make):
    sliced, whole = make(worker=None), make(worker=None, in_slices=False)
    for pool in (sliced, whole):
        pool.refresh(1.0)
        for number, replica in enumerate(pool.replicas[:300]):
            pool.speed.answered(replica, 0.1 + number / 1000, 1.0, 1.5)
        pool.speed.mean_work = pool.speed.mean_seconds = 1.0
    until_refreshed(sliced, 2.0)
    whole.refresh(2.0)
    for one, other in zip(sliced.replicas, whole.replicas, strict=True):
        assert one.cost == pytest.approx(other.cost)
        assert (one.share, one.limit, one.load) == (other.share, other.limit, other.load)
    assert sliced.speed.base == pytest.approx(whole.speed.base)


def test_a_new_table_is_in_force_with_the_next_request(make, make_snapshot):
    pool = make(max_concurrency=1)
    send(pool, 1.0)
    changed = [
        {"url": f"http://10.1.0.1:{n + 1}", "admin_state": "draining", "max_concurrency": 1}
        for n in range(MANY)
    ]
    changed[7] |= {"admin_state": "active", "weight": 3.0}
    pool.replace(make_snapshot(changed, version=2, max_concurrency=1))
    held = pool.begin(1.0, 1.001)
    assert held.replica is pool.replicas[7]
    assert (held.replica.share, held.replica.limit) == (3.0, 1)
    assert not isinstance(pool.begin(1.0, 1.002), Attempt), "its one slot is taken"


def test_who_joins_is_compared_at_the_speed_of_the_others_and_starts_slowly(make, make_snapshot):
    pool = make(MANY - 1)
    for _ in range(3000):
        replica = pool.begin(1.0, 1.0)
        replica.settle(Outcome.SUCCESS, 11.0)
    until_refreshed(pool, 11.0)
    usual = pool.speed.base
    assert usual == pytest.approx(10.0, rel=0.3)
    snapshot = make_snapshot([{"url": f"http://10.1.0.1:{n + 1}"} for n in range(MANY)], version=2)
    steps = pool.prepare(snapshot)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        pairs = end.value
    pool.replace(snapshot, pairs, in_steps=True)
    pool.begin(1.0, 11.001)
    assert pool.replicas[-1].ramp == pytest.approx(0.1)
    assert pool.replicas[-1].cost == pytest.approx(usual / 0.1)


def test_an_ejection_by_another_worker_is_followed_in_slices_and_ends_in_time(make):
    one, two = make(worker=0), make(worker=1)
    for pool in (one, two):
        send(pool, 1.0)
    out = one.replicas[MANY - 1]
    one.unreachable(out, "nothing listens", 1.5)
    assert out.ejection.until
    there = two.replicas[MANY - 1]
    for turn in range(400):
        send(two, 1.5 + turn / 2000)
    assert there.ejection.until == out.ejection.until
    assert there not in two._eligible
    later = there.ejection.until + 0.001
    two.begin(1.0, later)
    assert there.ejection.probing or two._slow_path.eligibility.probation == [there]


def test_what_is_ejected_is_not_asked_by_the_next_request(make):
    pool = make(80, strategy="random")
    send(pool, 1.0)
    pool.unreachable(pool.replicas[3], "nothing listens", 1.01)
    names = {send(pool, 1.01).name for _ in range(2000)}
    assert "r3" not in names
    assert len(names) == 79


def test_a_table_that_changes_within_a_cycle_begins_a_new_one(make, make_snapshot):
    pool = make()
    send(pool, 1.0)
    for turn in range(20):
        send(pool, 1.2 + turn / 2000)
    pool.replace(make_snapshot([{"url": f"http://10.1.0.2:{n + 1}"} for n in range(500)], version=2))
    assert {send(pool, 1.22 + turn / 2000).address.host for turn in range(500)} == {"10.1.0.2"}
    until_refreshed(pool, 3.0)
    assert all(replica.cells is not None for replica in pool.replicas)


@pytest.mark.parametrize("within_a_cycle", [False, True])
def test_a_fleet_that_is_removed_rejects_and_lets_reports_end(make, within_a_cycle):
    pool = make()
    send(pool, 1.0)
    if within_a_cycle:
        assert pool.refresh_some(1.2)
    pool.close()
    for turn in range(20):
        rejection = pool.begin(1.0, 1.21 + turn / 10)
        assert not isinstance(rejection, Attempt)
        assert rejection.code == "fleet_removed"
    until_refreshed(pool, 5.0)


def test_counts_of_siblings_are_read_some_at_a_time(make):
    one, two = make(worker=0), make(worker=1)
    for pool in (one, two):
        send(pool, 1.0)
        until_refreshed(pool, 2.0)
    held = [two.begin(1.0, 2.0) for _ in range(500)]
    for turn in range(400):
        send(one, 2.01 + turn / 4000)
    assert sum(replica.peer_in_flight for replica in one.replicas) == len(held)


def test_where_hundreds_are_silent_at_once_the_fleet_is_counted_once(make, monkeypatch):
    pool = make(strategy="random")
    send(pool, 1.0)
    for _ in range(3 * MANY):
        pool.begin(1.0, 1.0)
    counted = []
    real = census.eligibility.available
    monkeypatch.setattr(census.eligibility, "available", lambda *given: (counted.append(1), real(*given))[1])
    until_refreshed(pool, 200.0)
    out = sum(bool(replica.ejection.until) for replica in pool.replicas)
    assert out == MANY // 2, "as many as may be"
    assert len(counted) == 1
