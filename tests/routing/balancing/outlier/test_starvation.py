"""A replica in doubt that no strategy asks is tried out, until it has failed often enough or answers."""

from heapq import heappop, heappush

import pytest

from routing.balancing import strategies
from routing.balancing.attempt.outcome import Outcome

WITHOUT_KEYS = sorted(set(strategies.names()) - {"consistent_hash", "prefix_affinity"})


def serve(pool, begin, end, outcome_at_r0, every=0.01):
    """A request each ``every``, answered after 35 ms, so that some are in flight; what fails fails at once.
    Returns when r0 was asked."""
    asked, in_flight, number = [], [], 0
    for number in range(round((end - begin) / every)):
        now = begin + number * every
        while in_flight and in_flight[0][0] <= now:
            at, _, attempt, outcome = heappop(in_flight)
            attempt.settle(outcome, at)
        attempt = pool.begin(1.0, now)
        mine = attempt.replica.name == "r0"
        if mine:
            asked.append(now)
        outcome = outcome_at_r0 if mine else Outcome.SUCCESS
        takes_s = 0.035 if outcome is Outcome.SUCCESS else 0.001
        heappush(in_flight, (now + takes_s, number, attempt, outcome))
    for at, _, attempt, outcome in sorted(in_flight):
        attempt.settle(outcome, at)
    return asked


@pytest.mark.parametrize("strategy", WITHOUT_KEYS)
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST], ids=["500", "lost"])
def test_a_replica_that_always_fails_is_out_within_seconds(make_pool, strategy, outcome):
    """Though its first failure turns the traffic away from it."""
    pool = make_pool(4, strategy=strategy, slow_start_s=0)
    serve(pool, 1.0, 20.0, Outcome.SUCCESS)
    assert not pool.replicas[0].ejection.count
    asked = serve(pool, 20.0, 25.0, outcome)
    assert pool.replicas[0].ejection.count
    assert len(asked) <= 8


@pytest.mark.parametrize("strategy", WITHOUT_KEYS)
def test_one_that_has_healed_is_asked_within_five_seconds(make_pool, strategy):
    pool = make_pool(4, strategy=strategy, slow_start_s=0)
    serve(pool, 1.0, 20.0, Outcome.SUCCESS)
    now, failed = 20.0, []
    while len(failed) < 2:
        failed += serve(pool, now, now + 0.1, Outcome.FAILED)
        now += 0.1
    assert serve(pool, now, now + 5.0, Outcome.SUCCESS)
    assert pool.replicas[0].ejection.failures == 0


def test_one_that_was_silent_is_asked_within_five_seconds(make_pool):
    pool = make_pool(4, strategy="least_expected_work", slow_start_s=0)
    serve(pool, 1.0, 25.0, Outcome.SUCCESS)
    begun = [pool.begin(1.0, 25.0) for _ in range(4)]
    [hung] = [attempt for attempt in begun if attempt.replica.name == "r0"]
    for attempt in begun:
        if attempt is not hung:
            attempt.settle(Outcome.SUCCESS, 25.02)
    serve(pool, 25.01, 40.0, Outcome.SUCCESS)
    hung.settle(Outcome.SUCCESS, 40.0)
    assert serve(pool, 40.01, 45.1, Outcome.SUCCESS)


def test_one_without_doubt_is_left_to_the_strategy(make_pool):
    """One that hardly gets anything, and nobody minds."""
    pool = make_pool([{"weight": 0.01}, {}, {}, {}], strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 10.0, Outcome.SUCCESS)
    pool.refresh(10.0)
    assert not pool.replicas[0].ejection.progress.is_due


def sessions(pool, begin, end, fails=False):
    """Eight sessions, a hundred requests a second; where each one's requests went."""
    homes = {}
    for number in range(round((end - begin) * 100)):
        session, now = number % 8, begin + number / 100
        attempt = pool.begin(1.0, now, key=(session * 2**61 + 12345,))
        homes.setdefault(session, set()).add(attempt.replica.name)
        failed = fails and attempt.replica.name == "r0"
        attempt.settle(Outcome.FAILED if failed else Outcome.SUCCESS, now + 0.001)
    return homes


def test_no_session_is_taken_from_its_replica_to_try_another(make_pool):
    """What a replica keeps of a session is nowhere else. Its own sessions show whether it is well."""
    pool = make_pool(4, strategy="consistent_hash", slow_start_s=0)
    homes = sessions(pool, 1.0, 5.0)
    assert all(len(where) == 1 for where in homes.values())
    in_doubt = pool.replicas[0]
    in_doubt.ejection.failures = 1
    strangers = {session for session, where in homes.items() if where != {"r0"}}
    now, found = 5.0, {}
    while now < 8.0:
        attempt = pool.begin(1.0, now, key=(min(strangers) * 2**61 + 12345,))
        found.setdefault(attempt.replica.name, 0)
        attempt.settle(Outcome.SUCCESS, now + 0.001)
        now += 0.01
    assert in_doubt.ejection.progress.is_due
    assert set(found) == homes[min(strangers)]
    without_key = pool.begin(1.0, now)
    assert without_key.replica is in_doubt
    without_key.settle(Outcome.SUCCESS, now)
