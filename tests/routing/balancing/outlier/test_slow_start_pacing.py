"""Slow start counts requests too: who has had more than its part of them is left alone for a while."""

from collections import Counter

import pytest

from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.outcome import Outcome

PLACES = {"strategy": "round_robin", "max_concurrency": 2}


def grown(make_pool, make_snapshot, **policy):
    """Two replicas, and a third one that was added at 100 s: a thirtieth of the requests is its part."""
    pool = make_pool(2, **policy)
    pool.refresh(99.0)
    pool.replace(make_snapshot(3, version=2, **policy))
    pool.refresh(100.0)
    return pool


def ask(pool, now, name, times=1):
    """So many requests to this replica, answered at once."""
    pick = pool._pick
    pool._pick = lambda found, *_: next(one for one in found if one.name == name)
    for _ in range(times):
        pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 0.01)
    pool._pick = pick


def test_what_was_had_beyond_its_part_is_made_up_for(make_pool, make_snapshot):
    pool = grown(make_pool, make_snapshot, **PLACES)
    new, limits = pool.replicas[2], []
    ask(pool, 100.0, "r2", 2)
    for look in range(1, 6):
        pool.refresh(100.0 + look * 0.1)
        limits.append(new.limit)
        # Half a request of these is its part.
        ask(pool, 100.0 + look * 0.1, "r0", 15)
    assert limits == [0, 0, 1, 1, 1]


def test_a_request_goes_elsewhere_meanwhile(make_pool, make_snapshot):
    pool = grown(make_pool, make_snapshot, **PLACES)
    ask(pool, 100.0, "r2", 2)
    pool.refresh(100.1)
    held = [pool.begin(1.0, 100.1) for _ in range(4)]
    assert {attempt.replica.name for attempt in held} == {"r0", "r1"}
    assert not hasattr(pool.begin(1.0, 100.1), "replica")


@pytest.mark.parametrize(("others", "rests"), [(7, True), (6, False)])
def test_where_places_are_not_counted_it_loses_its_weight(make_pool, make_snapshot, send, others, rests):
    """But only where it is an eighth of the fleet or less: how long requests wait cannot be seen."""
    pool = make_pool(others, strategy="round_robin")
    pool.refresh(99.0)
    pool.replace(make_snapshot(others + 1, version=2, strategy="round_robin"))
    pool.refresh(100.0)
    ask(pool, 100.0, f"r{others}", 20)
    pool.refresh(100.1)
    assert pool.replicas[-1].ramp == pytest.approx(0.001 if rests else 0.1, rel=0.1)
    asked = Counter(send(pool, 100.1) for _ in range(400))
    assert asked[f"r{others}"] == pytest.approx(0 if rests else 6, abs=1)


def test_it_serves_on_where_somebody_waits_for_longer_than_an_answer_takes(make_pool, make_snapshot):
    pool = grown(make_pool, make_snapshot, **PLACES)
    ask(pool, 100.0, "r2", 20)
    answer_s = pool.speed.mean_seconds
    pool.admission.join(Ticket(object(), 1, 100.06, 200.0), None, 100.06)
    new = pool.replicas[2]
    pool.refresh(100.06 + answer_s / 2)
    assert new.limit == 0
    pool.refresh(100.07 + answer_s)
    assert new.limit == 1


def test_nobody_rests_where_most_have_just_come_up(make_pool, make_snapshot):
    down = {"health": "checking", "has_passed": False}
    pool = make_pool([down, down, {}], **PLACES)
    pool.refresh(99.0)
    pool.replace(make_snapshot(3, version=2, **PLACES))
    pool.refresh(100.0)
    ask(pool, 100.0, "r0", 20)
    pool.refresh(100.1)
    assert [replica.limit for replica in pool.replicas] == [1, 1, 2]


def test_what_others_had_before_it_came_is_no_due_of_it(make_pool, make_snapshot):
    pool = make_pool(2, **PLACES)
    ask(pool, 50.0, "r0", 5000)
    pool.replace(make_snapshot(3, version=2, **PLACES))
    for now in (100.0, 100.1, 100.2):
        pool.refresh(now)
    ask(pool, 100.2, "r2", 2)
    pool.refresh(100.3)
    assert pool.replicas[2].limit == 0


def test_its_part_is_of_what_its_own_site_had(make_pool, make_snapshot):
    """Nobody asks the other site, whose replicas would make its part small."""
    old = [{"site": "here"}, *[{"site": "there"}] * 8]
    pool = make_pool(old, **PLACES)
    pool.refresh(99.0)
    pool.replace(make_snapshot([*old, {"site": "here"}], version=2, **PLACES))
    for now in (100.0, 100.1):
        pool.refresh(now)
    ask(pool, 100.1, "r0", 20)
    ask(pool, 100.1, "r9", 2)
    pool.refresh(100.2)
    assert pool.replicas[9].limit == 1


@pytest.mark.parametrize("looks", [0, 1])
def test_what_it_had_before_it_was_down_does_not_count(make_pool, make_snapshot, looks):
    pool = grown(make_pool, make_snapshot, **PLACES)
    ask(pool, 100.0, "r2", 500)
    for look in range(looks):
        pool.refresh(100.1 + look)
    down = [{}, {}, {"health": "down"}]
    pool.replace(make_snapshot(down, version=3, **PLACES))
    pool.refresh(101.0)
    pool.replace(make_snapshot(3, version=4, **PLACES))
    for now in (102.0, 102.1, 102.2):
        pool.refresh(now)
        assert pool.replicas[2].limit == 1
