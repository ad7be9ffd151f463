"""A replica that was silent and has answered one worker's probe request is back at every worker of the host,
though what was sent to it before stays silent."""

import os
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
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
