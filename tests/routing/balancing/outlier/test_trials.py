"""Probe requests of an ejected replica: when they are due, and what no longer counts after a return."""

import os
from itertools import pairwise
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier import ejection
from routing.balancing.pool.pool import Pool
from routing.shared.shm_counters import SharedCounters


def fail_probes(pool, until_s):
    """Fail every probe request as it comes due; returns when they were sent."""
    state, sent = pool.replicas[0].ejection, []
    while state.until < until_s:
        now = state.until
        probe = pool.begin(1.0, now)
        assert probe.probe
        probe.settle(Outcome.FAILED, now + 0.01)
        sent.append(now)
    return sent


def hung_at_r0(pool, count, now):
    """So many requests in flight there; the others are answered."""
    found = []
    while len(found) < count:
        attempt = pool.begin(1.0, now)
        if attempt.replica.name == "r0":
            found.append(attempt)
        else:
            attempt.settle(Outcome.SUCCESS, now + 0.01)
    return found


def test_one_every_five_seconds_in_the_first_minute(make_pool, fail):
    """Whatever the back-off, which goes on to grow as if there were none of them."""
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 100.0)
    sent = [100.0, *fail_probes(pool, 160.0)]
    gaps = [later - earlier for earlier, later in pairwise(sent)]
    assert max(gaps) <= 5.0
    assert sent[-1] > 153.0
    state = pool.replicas[0].ejection
    assert 20.0 <= state.lasted_s <= 100.0
    later = fail_probes(pool, 300.0)
    assert max(after - before for before, after in pairwise(later)) <= ejection.LATER_TRIAL_EVERY_S + 0.1
    assert len(later) < 20, "after the first minute they are fewer"


def test_a_long_base_hinders_none_of_them(make_pool, fail):
    pool = make_pool(3, strategy="round_robin", ejection={"base_s": 60.0})
    fail(pool, "r0", 5, 100.0)
    assert pool.replicas[0].ejection.until <= 105.0


def test_one_that_hung_for_long_is_followed_by_the_next_soon(make_pool, fail):
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 100.0)
    state = pool.replicas[0].ejection
    probe = pool.begin(1.0, state.until)
    probe.settle(Outcome.LOST, probe.started + 4.4)
    assert state.until - probe.started <= 5.0


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.LOST, Outcome.FAILED])
def test_failures_from_before_the_return_never_count(make_pool, fail, outcome):
    """Twenty requests that hung with the replica end badly once it is back."""
    pool = make_pool(3, strategy="round_robin")
    hung = hung_at_r0(pool, 20, 99.0)
    fail(pool, "r0", 5, 100.0)
    state = pool.replicas[0].ejection
    back = state.until
    pool.begin(1.0, back).settle(Outcome.SUCCESS, back + 0.1)
    assert not state.until
    for attempt in hung:
        attempt.settle(outcome, back + 1.0)
    for i in range(200):
        now = back + 1.0 + i / 20
        pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 0.001)
        pool.refresh(now + 0.002)
    assert (state.until, state.count, state.failures) == (0, 1, 0)
    assert pool.replicas[0].failed == 25, "they are counted all the same"


def test_they_do_not_count_in_other_workers_either(make_snapshot, fail):
    block = SharedCounters.create(workers=2, replicas=4)
    pools = []
    for worker in (0, 1):
        shared = SharedCounters.attach(block.fd, worker)
        pools.append(Pool(make_snapshot(3, strategy="round_robin"), shared, Random(worker)))
    one, two = pools
    hung = hung_at_r0(one, 20, 99.0)
    fail(one, "r0", 5, 100.0)
    back = one.replicas[0].ejection.until
    one.begin(1.0, back).settle(Outcome.SUCCESS, back + 0.1)
    two.refresh(back + 0.2)
    for attempt in hung:
        attempt.settle(Outcome.TIMEOUT, back + 1.0)
    for i in range(100):
        now = back + 1.0 + i / 10
        for pool in pools:
            pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 0.001)
            pool.refresh(now + 0.002)
    assert [pool.replicas[0].ejection.until for pool in pools] == [0, 0]
    block.close()
    os.close(block.fd)


def test_probes_that_pass_again_make_the_probe_request_due(make_pool, make_snapshot, fail):
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 100.0)
    pool.replace(make_snapshot([{"health": "down"}, {}, {}], version=2, strategy="round_robin"))
    pool.refresh(100.5)
    pool.replace(make_snapshot(3, version=3, strategy="round_robin"))
    pool.refresh(101.0)
    assert pool.begin(1.0, 101.1).probe


def test_one_that_is_rejected_after_the_return_is_no_second_return(make_pool):
    pool = make_pool(3, strategy="round_robin")
    (hung,) = hung_at_r0(pool, 1, 100.0)
    replica, state = hung.replica, hung.replica.ejection
    pool.refresh(100.0 + pool.policy.timeouts.stall_s + 1.0)
    assert state.stalled
    probe = pool.begin(1.0, state.until)
    assert probe.probe
    back = probe.started + 0.5
    hung.first_byte(back)
    pool.refresh(back)
    assert not state.until
    replica.speed.seconds = learned = 3.0
    probe.settle(Outcome.REJECTED, back + 2.0)
    assert state.returned_at == back
    assert replica.speed.seconds > learned / 2, "what was learned since then stays"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST])
def test_one_that_fails_while_the_table_lacks_its_replica_is_followed_by_another(
    make_pool, make_snapshot, fail, outcome
):
    pool = make_pool(3, strategy="round_robin")
    (stream,) = hung_at_r0(pool, 1, 99.0)
    fail(pool, "r0", 5, 100.0)
    state = pool.replicas[0].ejection
    probe = pool.begin(1.0, state.until)
    pool.replace(make_snapshot(0, version=2, strategy="round_robin"))
    now = probe.started + 1.0
    probe.settle(outcome, now)
    pool.replace(make_snapshot(3, version=3, strategy="round_robin"))
    assert pool.replicas[0].ejection is state, "the stream has kept it"
    pool.refresh(now + 1.0)
    again = pool.begin(1.0, now + 10.0)
    assert (again.probe, again.replica) == (True, stream.replica)
