"""Slow start where less than one place is due: the one place stays free for part of the time."""

import pytest

from routing.attempts.outcome import Outcome
from routing.policies.waiting_line import Ticket

POLICY = {"strategy": "round_robin", "max_concurrency": 2}


@pytest.fixture
def grown(make_pool, make_snapshot):
    """Two replicas, and a third one that was added at 100 s: a tenth of its two places is due."""
    pool = make_pool(2, **POLICY)
    pool.refresh(99.0)
    pool.replace(make_snapshot(3, version=2, **POLICY))
    pool.refresh(100.0)
    return pool


def fill(pool, now):
    """As many requests as find a place; the one at the new replica last."""
    held = [pool.begin(1.0, now) for _ in range(5)]
    return sorted(held, key=lambda attempt: attempt.replica.name)


def test_what_was_taken_beyond_a_part_of_a_place_is_made_up_for(grown):
    new = grown.replicas[2]
    held = fill(grown, 100.0)
    assert [attempt.replica.name for attempt in held] == ["r0", "r0", "r1", "r1", "r2"]
    grown.refresh(100.1)
    held[4].settle(Outcome.SUCCESS, 100.11)
    looks = []
    for look in range(2, 9):
        grown.refresh(100.0 + look * 0.1)
        looks.append(new.limit)
    # A fifth of a place is due: it was taken for one look and stays free for four.
    assert looks == [0, 0, 0, 1, 1, 1, 1]


def test_a_request_goes_elsewhere_meanwhile(grown):
    held = fill(grown, 100.0)
    grown.refresh(100.1)
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 100.11)
    asked = {grown.begin(1.0, 100.15).replica.name for _ in range(4)}
    assert asked == {"r0", "r1"}


def test_it_serves_on_where_somebody_waits_for_longer_than_an_answer_takes(grown):
    held = fill(grown, 100.0)
    held[4].settle(Outcome.SUCCESS, 100.05)
    grown.begin(1.0, 100.06)
    answer_s = grown.speed.mean_seconds
    grown.admission.join(Ticket(object(), 1, 100.06, 200.0), None, 100.06)
    new = grown.replicas[2]
    grown.refresh(100.06 + answer_s / 2)
    assert new.limit == 0
    grown.refresh(100.07 + answer_s)
    assert new.limit == 1


def test_nobody_rests_where_all_have_just_come_up(make_pool, make_snapshot):
    pool = make_pool([{"health": "checking", "has_passed": False}] * 3, **POLICY)
    pool.refresh(99.0)
    pool.replace(make_snapshot(3, version=2, **POLICY))
    pool.refresh(100.0)
    held = [pool.begin(1.0, 100.0) for _ in range(3)]
    pool.refresh(100.1)
    assert [replica.limit for replica in pool.replicas] == [1, 1, 1]
    assert len({attempt.replica.name for attempt in held}) == 3


def test_a_replica_that_was_idle_has_nothing_saved_up(grown):
    grown.refresh(101.0)
    fill(grown, 101.0)
    grown.refresh(101.1)
    assert grown.replicas[2].limit == 0
