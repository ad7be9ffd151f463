"""A request that is due at a certain time goes where it is likelier in time, at a price."""

from collections import Counter

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.predictions import EVERY_S
from routing.balancing.pool.due_pick import LEAST_WORTH, Due, MovedShare
from routing.balancing.pool.pool import Pool

SLOW, FAST = "r0", "r1"
SECONDS = {SLOW: 4.0, FAST: 1.0}
"""For a request of work 1, beside no other."""


def taught(pool: Pool, spread: float = 1.05, requests: int = 60) -> float:
    """Answers of one and of the other replica, each a little faster or slower than usual; when the last one
    was complete."""
    now = 1.0
    for number in range(requests):
        attempt = pool.begin(1.0, now)
        assert isinstance(attempt, Attempt)
        took = SECONDS[attempt.replica.name] * spread ** (number % 5 - 2)
        attempt.settle(Outcome.SUCCESS, now + took)
        now += max(EVERY_S, 0.1)
    pool.refresh(now)
    return now


@pytest.fixture
def pool(make_pool) -> Pool:
    """Takes turns, so that every second choice is the slow one."""
    return make_pool(2, strategy="round_robin", slow_start_s=0)


def names(
    pool: Pool, now: float, count: int = 4, due: Due | None = None, settle: bool = True
) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(count):
        attempt = pool.begin(1.0, now, due=due)
        assert isinstance(attempt, Attempt)
        found[attempt.replica.name] += 1
        if settle:
            attempt.settle(Outcome.PREVENTED, now)
    return found


def test_what_only_the_fast_one_can_do_in_time_goes_there(pool: Pool) -> None:
    now = taught(pool)
    assert names(pool, now, due=Due(now + 2.0)) == {FAST: 4}
    assert pool.counters.picked_in_time == 2
    # Without a deadline the strategy takes turns as before.
    assert names(pool, now) == {SLOW: 2, FAST: 2}


def test_where_each_is_in_time_the_strategy_chooses(pool: Pool) -> None:
    now = taught(pool)
    assert names(pool, now, due=Due(now + 10.0)) == {SLOW: 2, FAST: 2}
    assert pool.counters.picked_in_time == 0


def test_what_is_late_everywhere_takes_nobody_s_place(pool: Pool) -> None:
    now = taught(pool)
    assert names(pool, now, due=Due(now + 0.2)) == {SLOW: 2, FAST: 2}
    assert names(pool, now, due=Due(now - 1.0)) == {SLOW: 2, FAST: 2}


def test_while_nothing_is_known_the_strategy_chooses(pool: Pool) -> None:
    assert names(pool, 1.0, due=Due(1.1, 1.1)) == {SLOW: 2, FAST: 2}


def test_it_is_bounded_by_load(pool: Pool) -> None:
    now = taught(pool)
    begun = names(pool, now, count=40, due=Due(now + 2.0), settle=False)
    # The fast one fills first; then it is too congested for what is gained, and the strategy's choice stands.
    assert begun[SLOW] > 5
    assert begun[FAST] > begun[SLOW]


def test_where_all_are_just_in_time_at_the_fast_one_its_places_have_a_price(pool: Pool) -> None:
    now = taught(pool)
    fast = next(one for one in pool.replicas if one.name == FAST)
    assert names(pool, now, due=Due(now + 2.0)) == {FAST: 4}
    fast.due_sensitivity, fast.due_picked = 1.0, fast.picked
    assert names(pool, now, count=2, due=Due(now + 2.0)) == {SLOW: 1, FAST: 1}


def test_requests_at_the_brink_are_noted_at_their_replica(pool: Pool) -> None:
    now = taught(pool, spread=1.3)
    fast = next(one for one in pool.replicas if one.name == FAST)
    names(pool, now, count=20, due=Due(now + 60.0))
    assert fast.due_sensitivity == 0.0
    names(pool, now, count=20, due=Due(now + 1.0))
    brink = fast.due_sensitivity
    assert brink > 0.2
    # Those that are not due do not mind.
    names(pool, now, count=60)
    names(pool, now, count=2, due=Due(now + 60.0))
    assert fast.due_sensitivity < brink / 2


def test_a_first_token_is_due_as_well(make_pool) -> None:
    pool = make_pool(2, strategy="round_robin", slow_start_s=0)
    now = 1.0
    for number in range(60):
        attempt = pool.begin(1.0, now)
        assert isinstance(attempt, Attempt)
        took = SECONDS[attempt.replica.name] * 1.05 ** (number % 5 - 2)
        attempt.heard(now + took / 4, 1)
        attempt.settle(Outcome.SUCCESS, now + took, 10)
        now += EVERY_S
    pool.refresh(now)
    assert names(pool, now, due=Due(first_token=now + 0.5)) == {FAST: 4}
    assert names(pool, now, due=Due(first_token=now + 5.0)) == {SLOW: 2, FAST: 2}


def test_if_many_go_elsewhere_it_takes_more_to_be_one_of_them() -> None:
    moved = MovedShare()
    for number in range(1000):
        moved.count(number % 20 == 0)
    assert moved.least_worth == LEAST_WORTH
    for number in range(1000):
        moved.count(number % 5 == 0)
    assert moved.least_worth > 1.5 * LEAST_WORTH
