"""A replica whose responses are no answers while its peers' are: out; where all respond so, none is."""

from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier.ejection import NO_RESULT
from routing.balancing.pool.pool import Pool
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

EVERY_S = 0.01
WORKERS = 4

block = block_fixture(workers=WORKERS, replicas=16)


def serve(pool, begin, seconds, missing_at, every=EVERY_S):
    """A request each ``every``, answered at once. ``missing_at(name, number)``: whether the response is none,
    and is found to be. Returns how many were settled as such."""
    settled = 0
    for number in range(round(seconds / every)):
        now = begin + number * every
        attempt = pool.begin(1.0, now)
        outcome = Outcome.SUCCESS
        if missing_at(attempt.replica.name, number):
            if pool.lacks_result(attempt.replica, now):
                outcome = Outcome.WITHOUT_RESULT
                settled += 1
        elif attempt.replica.inspected:
            pool.has_result(attempt, True, now)
        attempt.settle(outcome, now + every / 2)
    return settled


def begin_at(replica, pool, now):
    """A request that goes to this replica."""
    for _ in range(100):
        attempt = pool.begin(1.0, now)
        if attempt.replica is replica:
            return attempt
        attempt.settle(Outcome.CANCELLED, now)
    raise AssertionError(f"{replica} was not asked")


@pytest.fixture
def pool(make_pool):
    return make_pool(4, strategy="round_robin", slow_start_s=0)


def test_five_are_enough(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    missing = serve(pool, 3.0, 4.0, lambda name, _: name == "r0")
    assert pool.replicas[0].ejection.cause == NO_RESULT
    assert 3 <= missing <= 5  # of the first ones nobody knows
    [why] = [one.reasons for one in pool.explain(4.0) if one.name == "r0"]
    assert "5 of its last responses were no answers of their protocol" in why[0]


def test_one_is_legal_and_so_is_one_in_ten(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    served = {"r0": 0}

    def one_in_ten(name, _):
        served["r0"] += name == "r0"
        return name == "r0" and served["r0"] % 10 == 1

    assert serve(pool, 3.0, 40.0, one_in_ten) > 50
    assert not pool.replicas[0].ejection.count


def test_half_of_them_are_not(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    serve(pool, 3.0, 2.0, lambda name, number: name == "r0" and number % 8 < 4)
    assert pool.replicas[0].ejection.count == 1


def test_where_all_respond_so_it_is_a_success(pool):
    settled = serve(pool, 1.0, 10.0, lambda *_: True)
    assert not any(replica.ejection.count for replica in pool.replicas)
    assert settled < 10
    assert sum(replica.succeeded for replica in pool.replicas) > 980


def test_nothing_is_said_while_no_peer_has_answered(make_pool):
    pool = make_pool(2, strategy="round_robin")
    attempts = [pool.begin(1.0, 1.0) for _ in range(40)]
    for attempt in attempts:
        if attempt.replica.name == "r0":
            pool.lacks_result(attempt.replica, 1.1)
            attempt.settle(Outcome.WITHOUT_RESULT, 1.1)
    assert not pool.replicas[0].ejection.count


def test_it_is_held_to_its_share_until_it_is_decided(make_pool):
    """One that answers at once would get everything, and nobody would be left to compare it with."""
    pool = make_pool(4, strategy="least_connections", slow_start_s=0)
    held = [pool.begin(1.0, 1.0) for _ in range(3)]
    [fast] = [one for one in pool.replicas if not one.in_flight]
    served = 0
    for number in range(100):
        now = 1.0 + number / 1000
        attempt = pool.begin(1.0, now)
        if attempt.replica is not fast:
            held.append(attempt)
            continue
        served += 1
        if pool.lacks_result(fast, now):
            attempt.settle(Outcome.WITHOUT_RESULT, now)
        else:
            attempt.settle(Outcome.SUCCESS, now)
    assert served <= 26
    [words] = [one.reasons for one in pool.explain(1.1) if one.name == fast.name]
    assert words[0].startswith("in doubt: it has just given what is no answer")
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.2)
    pool.refresh(3.0)
    assert [one.reasons for one in pool.explain(3.0)] == [[], [], [], []]


def test_it_teaches_nothing_about_speed(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    before = pool.replicas[0].speed.units
    attempt = begin_at(pool.replicas[0], pool, 3.0)
    attempt.settle(Outcome.WITHOUT_RESULT, 3.0)
    assert pool.replicas[0].speed.units == before
    assert pool.replicas[0].outcomes.without_result == 1


def test_its_probe_request_decides_and_only_one_that_is_judged(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    serve(pool, 3.0, 1.0, lambda name, _: name == "r0")
    replica = pool.replicas[0]
    due = replica.ejection.until
    probe = pool.begin(1.0, due)
    assert probe.probe
    assert replica.inspected
    probe.settle(Outcome.WITHOUT_RESULT, due + 0.1)
    assert replica.ejection.until > due
    assert "probe request" in replica.ejection.reason

    due = replica.ejection.until
    probe = pool.begin(1.0, due)
    assert probe.probe
    probe.settle(Outcome.SUCCESS, due + 0.1)  # of a call that is not judged
    assert replica.ejection.until
    probe = pool.begin(1.0, due + 0.2)
    assert probe.probe
    pool.has_result(probe, True, due + 0.3)
    probe.settle(Outcome.SUCCESS, due + 0.3)
    assert not replica.ejection.until


def test_after_a_minute_any_answer_lets_it_back(pool):
    serve(pool, 1.0, 2.0, lambda *_: False)
    serve(pool, 3.0, 1.0, lambda name, _: name == "r0")
    replica = pool.replicas[0]
    attempt = pool.begin(1.0, 70.0)
    assert attempt.probe
    attempt.settle(Outcome.SUCCESS, 70.1)
    assert not replica.ejection.until


def test_one_response_is_inspected_with_each_timer_and_each_one_in_doubt(pool):
    replica = pool.replicas[0]
    serve(pool, 1.0, 0.5, lambda *_: False)
    pool.refresh(3.0)
    assert replica.inspected
    attempt = begin_at(replica, pool, 3.0)
    pool.has_result(attempt, True, 3.0)
    assert not replica.inspected
    attempt.settle(Outcome.SUCCESS, 3.0)
    attempt = begin_at(replica, pool, 3.05)
    attempt.settle(Outcome.WITHOUT_RESULT, 3.05)
    assert replica.inspected
    attempt = begin_at(replica, pool, 3.06)
    pool.has_result(attempt, True, 3.06)
    assert replica.inspected


def test_a_large_pool_inspects_two_hundred_a_second(make_pool):
    pool = make_pool(60, strategy="round_robin")
    pool.refresh(3.0)
    for replica in pool.replicas:
        attempt = begin_at(replica, pool, 3.0)
        pool.has_result(attempt, True, 3.0)
        attempt.settle(Outcome.SUCCESS, 3.0)
    pool.refresh(3.15)
    assert not any(replica.inspected for replica in pool.replicas)
    pool.refresh(3.3)
    assert all(replica.inspected for replica in pool.replicas)


def test_the_workers_of_a_host_count_together(make_snapshot, block):
    """Though each sees of the others' successes what they have shown a tenth of a second ago."""
    snapshot = make_snapshot(4, strategy="round_robin", slow_start_s=0)
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, one), Random(one)) for one in range(WORKERS)]
    missing = 0
    for number in range(800):
        now, pool = 1.0 + number * EVERY_S, pools[number // 2 % WORKERS]
        attempt = pool.begin(1.0, now)
        outcome = Outcome.SUCCESS
        if attempt.replica.name == "r0" and now > 3.0 and pool.lacks_result(attempt.replica, now):
            outcome = Outcome.WITHOUT_RESULT
            missing += 1
        attempt.settle(outcome, now)
    assert all(pool.replicas[0].ejection.until for pool in pools)
    assert all(pool.replicas[0].inspected for pool in pools)
    assert missing <= 12
