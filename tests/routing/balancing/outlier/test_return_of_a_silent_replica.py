"""A replica that was silent and has answered one worker's probe request is back at every worker of the host,
though what was sent to it before stays silent. Its probe request alone says nothing."""

import os
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier.ejection import FAILURES, SILENCE
from routing.balancing.pool.pool import Pool
from routing.shared.shm_counters import SharedCounters
from tests.routing.balancing.outlier.test_silence import Endpoint, serve


@pytest.fixture
def workers(make_snapshot):
    block = SharedCounters.create(workers=2, replicas=16)
    snapshot = make_snapshot(3, strategy="round_robin", slow_start_s=0, timeouts={"stall_s": 6.0})
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in range(2)]
    for pool in pools:
        for replica in pool.replicas:
            replica.endpoint = Endpoint()
    yield pools
    os.close(block.fd)


@pytest.mark.parametrize("is_fast", [True, False])
def test_it_is_not_ejected_again_at_once(workers, is_fast):
    """By the early rule in a fast fleet, and by ``stall_s``."""
    hangs_at = 25.0 if is_fast else 1.0
    for pool in workers:
        serve(pool, 1.0, hangs_at)
    left, now = [], hangs_at
    while not all(pool.replicas[0].ejection.until for pool in workers):
        for pool in workers:
            left += serve(pool, now, now + 0.1, hanging=["r0"])
        now += 0.1
        assert now < hangs_at + 10.0
    mine, others = workers
    while mine.replicas[0].ejection.until:
        serve(mine, now, now + 0.02)
        now += 0.02
    for _ in range(15):
        for pool in workers:
            # Others go elsewhere, so that nothing new is heard from it here.
            pool._pick = lambda found, *_: found[-1]
            serve(pool, now, now + 0.1)
        now += 0.1
        assert not mine.replicas[0].ejection.until
        assert not others.replicas[0].ejection.until
    for attempt in left:
        attempt.settle(Outcome.LOST, now)


@pytest.fixture
def pool(make_pool):
    """Three replicas that answer in 50 ms, and ``r0`` hangs since 25.0. ``pool.left``: what waits there."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0, timeouts={"stall_s": 6.0})
    serve(pool, 1.0, 25.0)
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    left = serve(pool, 25.0, 28.0, hanging=["r0"])
    assert pool.replicas[0].ejection.stalled
    yield pool, left
    for attempt in left:
        attempt.settle(Outcome.LOST, 100.0)


def trial(pool):
    """The probe request, sent when it is due."""
    probe = pool.begin(1.0, pool.replicas[0].ejection.until)
    assert probe.probe
    pool.replicas[0].endpoint.requests.append([probe.started, probe.started])
    return probe


def others(pool, begin, end):
    """They go on answering."""
    pick, pool._pick = pool._pick, lambda found, *_: found[-1]
    serve(pool, begin, end)
    pool._pick = pick


@pytest.mark.parametrize("uploads", [False, True])
def test_its_probe_request_alone_lets_it_back_only_when_answered(pool, uploads):
    """Nothing waits there any more: its requests were taken from it."""
    pool, left = pool
    while left:
        left.pop().settle(Outcome.LOST, 28.0)
    pool.replicas[0].endpoint.requests.clear()
    probe = trial(pool)
    if uploads:
        probe.wait_for_client()
        probe.wait_for_replica(probe.started + 0.1)
    others(pool, probe.started + 0.1, probe.started + 1.0)
    assert pool.replicas[0].ejection.until
    probe.first_byte(probe.started + 1.0)
    others(pool, probe.started + 1.0, probe.started + 1.1)
    assert not pool.replicas[0].ejection.until
    probe.settle(Outcome.SUCCESS, probe.started + 1.2)


def test_its_probe_request_has_its_time(pool):
    """What was sent before is taken from the replica, as soon as it can be; the probe request is not."""
    pool, _ = pool
    probe, endpoint = trial(pool), pool.replicas[0].endpoint
    freed = len(endpoint.freed)
    others(pool, probe.started + 0.05, probe.started + 1.9)
    assert set(endpoint.freed_before[freed:]) == {probe.started}
    others(pool, probe.started + 1.9, probe.started + 2.2)
    assert endpoint.freed_before[-1] > probe.started
    assert "its probe request has heard nothing" in pool.replicas[0].ejection.reason
    probe.settle(Outcome.LOST, probe.started + 2.2)
    assert pool.replicas[0].ejection.cause == SILENCE


def test_so_has_that_of_a_replica_that_was_out_for_failures(make_pool, fail):
    """It is then silent like any other: its probe request goes elsewhere."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    bad = pool.replicas[0]
    bad.endpoint = Endpoint()
    fail(pool, "r0", 5, 25.0)
    probe = trial(pool)
    assert bad.ejection.cause == FAILURES
    others(pool, probe.started + 0.05, probe.started + 1.9)
    assert not bad.endpoint.freed
    others(pool, probe.started + 1.9, probe.started + 2.2)
    assert bad.endpoint.freed
    assert bad.ejection.cause == SILENCE
    assert bad.ejection.until <= probe.started + 5.0
    probe.settle(Outcome.LOST, probe.started + 2.2)


def test_what_was_sent_before_its_return_is_taken_from_it_and_is_no_evidence(pool):
    """However long it stays silent, and though nothing new is sent there."""
    pool, left = pool
    probe, replica = trial(pool), pool.replicas[0]
    replica.endpoint.requests.pop()
    probe.settle(Outcome.SUCCESS, probe.started + 0.05)
    back = replica.ejection.returned_at
    assert not replica.ejection.until
    assert replica.in_flight >= 3
    freed = len(replica.endpoint.freed)
    replica.endpoint.attempts = [attempt for attempt in left if attempt.replica is replica]
    others(pool, back + 0.05, back + 30.0)
    assert replica.ejection.count == 1
    assert replica.in_flight == 0
    endpoint = replica.endpoint
    assert set(endpoint.freed_before[freed:]) == {back}
    assert endpoint.written_off[-1] == [one for one in endpoint.requests if one[0] < back] != []
    # As long as some wait: retries have a budget.
    assert len(endpoint.freed_before) - freed == pytest.approx(29, abs=1)
    endpoint.requests.clear()
    others(pool, back + 30.0, back + 32.0)
    looked = len(endpoint.written_off)
    others(pool, back + 32.0, back + 35.0)
    assert len(endpoint.written_off) == looked
    # What it is sent now counts as before.
    left += serve(pool, back + 35.0, back + 38.0, hanging=["r0"])
    assert replica.ejection.count == 2
