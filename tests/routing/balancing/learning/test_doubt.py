"""What may be chance does not count: few responses, first ones, one that was stuck, set-up of connections."""

import pytest

from routing.balancing.attempt.outcome import Outcome


def answer(pool, replica, seconds, now, at_once=1):
    """``at_once`` requests, sent together to that replica, each answered after so many seconds."""
    others = tuple(one for one in pool.replicas if one.name != replica)
    attempts = [pool.begin(1.0, now, others) for _ in range(at_once)]
    assert {attempt.replica.name for attempt in attempts} == {replica}
    for attempt in attempts:
        attempt.settle(Outcome.SUCCESS, now + seconds)


def known(pool, seconds=0.1, until=11.0):
    """Ten responses a second of each, until then."""
    now = 1.0
    while now < until:
        for replica in pool.replicas:
            answer(pool, replica.name, seconds, now)
        now += 0.1
    pool.refresh(until)
    return pool


def costs(pool, now):
    pool.refresh(now)
    return {replica.name: replica.cost for replica in pool.replicas}


def test_small_differences_are_none(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    for step in range(40):
        for number, replica in enumerate(pool.replicas):
            answer(pool, replica.name, 0.1 + 0.003 * number, 11.0 + 0.1 * step)
    assert len(set(costs(pool, 15.1).values())) == 1


def test_large_ones_count(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    for step in range(100):
        for number, replica in enumerate(pool.replicas):
            answer(pool, replica.name, 0.3 if number == 3 else 0.1, 11.0 + 0.1 * step)
    found = costs(pool, 21.1)
    assert 2.0 < found["r3"] / found["r0"] < 3.5


def test_first_answers_are_no_speed(make_pool) -> None:
    """Three of four need two seconds for the first three requests each; others that they got meanwhile are
    quick."""
    pool = make_pool(4, max_concurrency=8)
    answer(pool, "r0", 0.1, 1.0, 8)
    pool.refresh(1.2)
    for name in "r1", "r2", "r3":
        others = tuple(one for one in pool.replicas if one.name != name)
        slow = [pool.begin(1.0, 1.2, others) for _ in range(3)]
        for step in range(4):
            answer(pool, name, 0.1, 1.3 + 0.1 * step)
        for attempt in slow:
            attempt.settle(Outcome.SUCCESS, 3.2)
    assert len(set(costs(pool, 3.3).values())) == 1


def test_a_slow_replica_is_known_after_its_first_answers(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    found = None
    pool = make_pool(4, max_concurrency=64)
    for step in range(80):
        for number, replica in enumerate(pool.replicas):
            answer(pool, replica.name, 1.0 if number == 3 else 0.1, 1.0 + 0.1 * step)
    found = costs(pool, 9.1)
    assert found["r3"] > 5 * found["r0"]


def test_one_that_was_stuck_is_not_slow(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    before = costs(pool, 11.0)
    answer(pool, "r0", 15.0, 11.0)
    for step in range(150):
        for replica in pool.replicas:
            answer(pool, replica.name, 0.1, 11.05 + 0.1 * step)
    after = costs(pool, 26.1)
    assert after["r0"] < 1.5 * before["r0"]


def test_failures_count_in_full_and_at_once(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    others = tuple(pool.replicas[1:])
    pool.begin(1.0, 11.0, others).settle(Outcome.FAILED, 11.001)
    failed, *well = pool.replicas
    assert failed.cost > 1.5 * max(one.cost for one in well)


def test_opening_a_connection_is_no_speed(make_pool) -> None:
    pool = known(make_pool(2, max_concurrency=64))
    before = pool.replicas[0].seconds_per_work
    for step in range(20):
        attempt = pool.begin(1.0, 11.0 + step, tuple(pool.replicas[1:]))
        attempt.connection_opened(11.5 + step)
        attempt.settle(Outcome.SUCCESS, 11.6 + step)
    assert pool.replicas[0].seconds_per_work == pytest.approx(before, rel=0.01)


def test_after_a_long_rest_first_answers_are_none_again(make_pool) -> None:
    pool = known(make_pool(4, max_concurrency=64))
    now = 11.0
    while now < 40.0:
        for replica in pool.replicas[1:]:
            answer(pool, replica.name, 0.1, now)
        now += 0.1
    pool.refresh(now)
    for _ in range(3):
        answer(pool, "r0", 2.0, now)
    found = costs(pool, now + 2.1)
    assert found["r0"] == found["r1"]
    for step in range(30):
        answer(pool, "r0", 2.0, now + 2.2 + step)
    assert costs(pool, now + 35.0)["r0"] > 5 * found["r1"]
