"""Large tables in steps: nothing is seen before the swap, every step is small, nothing is left behind."""

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool import endpoint_set
from routing.balancing.pool.endpoint_set import STEP
from routing.balancing.pool.table import Table, TableRefused
from routing.contract.table import Manifest
from routing.shared.shm_counters import SharedCounters

MANY = 1000


@pytest.fixture
def shared():
    parent = SharedCounters.create(workers=2, replicas=4 * MANY)
    found = SharedCounters.attach(parent.fd, 0)
    yield found
    found.close()
    parent.close()


@pytest.fixture
def table(shared):
    table = Table(shared)
    table.apply_manifest(Manifest(epoch=1, version=1, fleets={"digits": 1}))
    return table


@pytest.fixture
def made(monkeypatch):
    """How many replicas have been made, as a list of one number."""
    count = [0]

    class Counted(endpoint_set.Replica):
        __slots__ = ()

        def __init__(self, spec):
            count[0] += 1
            super().__init__(spec)

    monkeypatch.setattr(endpoint_set, "Replica", Counted)
    return count


def stage(table, snapshot):
    for _ in table.stage(snapshot):
        pass


def urls(first, number):
    numbers = range(first, first + number)
    return [{"uid": f"u{n}", "name": f"r{n}", "url": f"http://10.1.0.1:{n + 1}"} for n in numbers]


def test_nothing_is_seen_before_the_swap_and_every_step_is_small(table, make_snapshot, made):
    table.apply_snapshot(make_snapshot(2))
    before = table.fleets["digits"].replicas
    large = make_snapshot(urls(0, MANY), version=2)
    steps, largest, last = 0, 0, made[0]
    for _ in table.stage(large):
        steps, largest, last = steps + 1, max(largest, made[0] - last), made[0]
        assert table.fleets["digits"].replicas is before
        table.fleets["digits"].begin(1.0, 1.0 + steps)
    assert steps >= MANY // STEP
    assert 0 < largest <= STEP
    count = made[0]
    assert table.apply_snapshot(large)
    assert made[0] == count, "all were made before"
    replicas = table.fleets["digits"].replicas
    assert [replica.name for replica in replicas] == [spec.name for spec in large.replicas]
    assert all(replica.cells is not None for replica in replicas)


def test_it_comes_to_the_same_as_at_once(table, make_snapshot):
    """Live state stays, replicas of a new fleet begin at once, those that join later slowly."""
    first = make_snapshot(urls(0, 300))
    stage(table, first)
    assert table.apply_snapshot(first)
    pool = table.fleets["digits"]
    assert not any(replica.slow_start.pending for replica in pool.replicas)
    kept = pool.begin(1.0, 1.0).replica
    changed = [{**given, "weight": 2.0} for given in urls(0, 300)]
    second = make_snapshot([*changed, *urls(300, 10)], version=2)
    stage(table, second)
    assert kept.spec.weight == 1.0
    assert table.apply_snapshot(second)
    assert kept in pool.replicas
    assert (kept.in_flight, kept.spec.weight) == (1, 2.0)
    assert [replica.name for replica in pool.replicas if replica.slow_start.pending] == [
        f"r{n}" for n in range(300, 310)
    ]
    assert pool.version == (1, 2)


def test_what_was_staged_for_another_state_is_not_used(table, shared, make_snapshot):
    table.apply_snapshot(make_snapshot(urls(0, 10)))
    used = shared.used()
    late = make_snapshot(urls(0, 300), version=2)
    stage(table, late)
    assert shared.used() > used
    table.apply_snapshot(make_snapshot(urls(5, 5), version=3))
    assert not table.apply_snapshot(late)
    assert len(table.fleets["digits"].replicas) == 5
    assert shared.used() == used - 5, "nothing is held for what was not taken"
    between = make_snapshot(urls(0, 300), version=4)
    stage(table, between)
    table.fleets["digits"].replace(make_snapshot(urls(5, 6), version=3))  # as an emergency drain does
    assert table.apply_snapshot(between)
    assert len(table.fleets["digits"].replicas) == 300
    assert all(replica.cells is not None for replica in table.fleets["digits"].replicas)


@pytest.mark.parametrize("present", [True, False])
def test_staging_that_ends_early_leaves_nothing_behind(table, shared, make_snapshot, present):
    if present:
        table.apply_snapshot(make_snapshot(3))
    used = shared.used()
    steps = table.stage(make_snapshot(urls(0, MANY), version=2))
    for _ in range(10):
        next(steps)
    assert shared.used() > used
    steps.close()
    assert shared.used() == used


@pytest.mark.parametrize("present", [True, False])
def test_a_bad_table_is_refused_when_it_is_applied(table, shared, make_snapshot, present):
    if present:
        table.apply_snapshot(make_snapshot(3))
    used = shared.used()
    for bad in (
        make_snapshot([*urls(0, 300), {"uid": "u0"}], version=2),
        make_snapshot([*urls(0, 300), {"url": "ftp://x"}], version=2),
        make_snapshot(urls(0, 300), version=2, strategy="magic"),
    ):
        stage(table, bad)
        with pytest.raises(TableRefused):
            table.apply_snapshot(bad)
        stage(table, make_snapshot(1, version=0))  # drops what was staged
        assert shared.used() == used if present else shared.used() >= used
    assert ("digits" in table.fleets) is present


def test_fleets_that_a_manifest_removes_go_in_steps(table, shared, make_snapshot):
    nothing = shared.used()
    table.apply_snapshot(make_snapshot(urls(0, MANY)))
    busy = table.fleets["digits"].begin(1.0, 1.0)
    assert table.apply_manifest(Manifest(epoch=1, version=2), in_steps=True)
    assert table.fleets == {}
    steps, last, largest = 0, shared.used(), 0
    for _ in table.tidy():
        steps, largest, last = steps + 1, max(largest, last - shared.used()), shared.used()
    assert steps >= MANY // STEP - 1
    assert 0 < largest <= STEP
    assert shared.used() == nothing + 1
    busy.settle(Outcome.CANCELLED, 2.0)
    assert shared.used() == nothing


def test_what_comes_back_before_it_was_let_go_is_as_it_was(table, make_snapshot):
    table.apply_snapshot(make_snapshot(urls(0, 300)))
    pool = table.fleets["digits"]
    known = pool.replicas[7]
    table.apply_snapshot(make_snapshot(urls(100, 200), version=2), in_steps=True)
    assert known.leaving
    table.apply_snapshot(make_snapshot(urls(0, 300), version=3), in_steps=True)
    for _ in table.tidy():
        pass
    assert pool.replicas[7] is known
    assert not known.leaving
    assert all(replica.cells is not None for replica in pool.replicas)
