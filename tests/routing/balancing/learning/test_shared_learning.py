"""What was learned outlives strategies and tables, and reaches the other workers of the host."""

from random import Random

import msgspec
import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.cost_calibration import Octave
from routing.balancing.learning.shared_learning import packed, unpacked
from routing.balancing.pool.pool import Pool
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

SECONDS = {"r0": 1.6, "r1": 0.1}


block = block_fixture(workers=3, replicas=16)


@pytest.fixture
def join(block, make_snapshot):
    def start(worker, strategy="least_expected_work"):
        return Pool(
            make_snapshot(2, strategy=strategy), SharedCounters.attach(block.fd, worker), Random(worker)
        )

    return start


def teach(pool, answers=300, now=1.0):
    """Requests of which half are told to be of 4096, that take 100 tokens all the same."""
    for number in range(answers):
        told = 4096.0 if number // 2 % 2 else 100.0
        attempt = pool.begin(told, now, (pool.replicas[number % 2],))
        assert isinstance(attempt, Attempt)
        now += 0.02
        attempt.request_sent(now - SECONDS[attempt.replica.name])
        attempt.settle(Outcome.SUCCESS, now, 100)
    pool.refresh(now + 0.2)
    return now + 0.2


def speeds(pool):
    return [replica.seconds_per_work for replica in pool.replicas]


def changed(pool, **policy):
    snapshot = pool.snapshot
    policy = msgspec.structs.replace(snapshot.policy, **policy)
    return msgspec.structs.replace(snapshot, version=snapshot.version + 1, policy=policy)


def test_a_change_of_strategy_forgets_nothing(make_pool):
    pool = make_pool(2)
    now = teach(pool)
    before = speeds(pool), pool.speed.mean_work, pool.speed.answer_tokens, pool.speed.calibration.factors
    for strategy in (
        "least_response_time",
        "latency_aware",
        "peak_ewma",
        "round_robin",
        "least_expected_work",
    ):
        pool.replace(changed(pool, strategy=strategy))
        pool.refresh(now)
    assert speeds(pool) == pytest.approx(before[0])
    assert (pool.speed.mean_work, pool.speed.answer_tokens, pool.speed.calibration.factors) == before[1:]


def test_a_table_swap_forgets_no_answer_times(make_pool):
    pool = make_pool(2, strategy="prequal")
    now = teach(pool)
    kept = pool.speed.latency_tracker
    pool.replace(changed(pool, slow_start_s=7.0))
    assert pool.speed.latency_tracker is kept
    pool.replace(changed(pool, strategy="latency_aware"))
    teach(pool, 400, now)
    favours = [replica.favour for replica in pool.replicas]
    pool.replace(changed(pool, strategy="round_robin"))
    pool.replace(changed(pool, strategy="latency_aware"))
    assert [replica.favour for replica in pool.replicas] == favours
    assert favours[0] != 1.0 or favours[1] != 1.0


def test_a_worker_without_traffic_knows_what_another_has_learned(join):
    busy, idle = join(0), join(1)
    now = teach(busy)
    idle.refresh(now)
    assert speeds(idle) == pytest.approx(speeds(busy), rel=0.3)
    own, other = busy.speed, idle.speed
    assert other.mean_work == pytest.approx(own.mean_work, rel=0.1)
    assert other.mean_seconds == pytest.approx(own.mean_seconds, rel=0.1)
    assert other.tokens_per_work == pytest.approx(own.tokens_per_work, rel=0.1)
    assert other.answer_tokens == pytest.approx(100.0)
    for told in (100.0, 4096.0):
        assert idle.begin(told, now).work == pytest.approx(busy.begin(told, now).work, rel=0.15)


@pytest.mark.parametrize("strategy", ["least_response_time", "peak_ewma"])
def test_answer_times_are_the_hosts(join, strategy):
    busy, idle = join(0, strategy), join(1, strategy)
    now = teach(busy)
    idle.refresh(now)
    slow, fast = ([replica.answer_s for replica in pool.replicas] for pool in (busy, idle))
    assert fast == pytest.approx(slow, rel=0.1)
    assert fast[0] > 1.5 * fast[1]


def test_favours_are_the_hosts(join):
    busy, idle = join(0, "latency_aware"), join(1, "latency_aware")
    now = teach(busy, 1)
    for _ in range(40):
        now = teach(busy, 20, now)
        idle.refresh(now)
    favours = [replica.favour for replica in busy.replicas]
    assert favours[0] < 0.95
    assert [replica.favour for replica in idle.replicas] == pytest.approx(favours, rel=0.1)


def test_a_successor_knows_after_its_predecessor_has_left(join):
    """Of a rolling restart: it begins before the other one ends."""
    old = join(0)
    now = teach(old)
    successor = join(1)
    successor.refresh(now)
    before = speeds(successor)
    old.close()
    successor.refresh(now + 0.1)
    successor.refresh(now + 1.2)
    assert speeds(successor) == pytest.approx(before, rel=0.2)
    assert successor.speed.answer_tokens == pytest.approx(100.0)
    assert successor.begin(4096.0, now + 1.2).work < 2 * successor.begin(100.0, now + 1.2).work


def test_who_has_been_idle_does_not_hold_back_who_learns(join):
    busy, idle = join(0), join(1)
    now = teach(busy)
    idle.refresh(now)
    for _ in range(300):
        now += 0.1
        attempt = busy.begin(10.0, now)
        attempt.settle(Outcome.SUCCESS, now + 0.05, 10)
        idle.refresh(now)
    assert busy.speed.answer_tokens < 40
    assert idle.speed.answer_tokens == pytest.approx(busy.speed.answer_tokens, rel=0.2)


def test_a_fleet_that_goes_frees_its_cells(block, join):
    pool = join(0)
    pool.refresh(1.0)
    assert block.used() > 2
    pool.close()
    assert block.used() == 0


@pytest.mark.parametrize(("told", "taken"), [(100.0, 3.0), (1.0, 1e6), (1e9, 1.0)])
def test_a_factor_survives_its_packing(told, taken):
    assert unpacked(packed(Octave(200, told, taken))) == (200, pytest.approx(taken / told, rel=1e-4))
    assert packed(None) == packed(Octave()) == 0
