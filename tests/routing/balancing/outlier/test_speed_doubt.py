"""A replica that is suddenly much faster than any ever was: its fair share, until it is shown to be right."""

from collections import Counter
from heapq import heappop, heappush
from itertools import count
from random import Random

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier.doubt_text import words
from routing.balancing.pool.pool import Pool
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

AT_ONCE_S = 0.001
WORKERS = 4
BY_LOAD = ["least_expected_work", "least_connections", "peak_ewma", "prequal", "least_response_time"]

block = block_fixture(workers=WORKERS, replicas=16)


class Traffic:
    """Poisson arrivals at the pools in turn. Responses take 0.1 s give or take a half. ``at_once``: replicas
    that answer at once instead; ``has_content``: what is found in their answers, ``None``: they are not
    judged."""

    def __init__(self, *pools, rate=200.0):
        self.pools = pools
        self.rate = rate
        self.now = 1.0
        self.at_once = set()
        self.has_content = None
        self.at_once_s = AT_ONCE_S
        self.picked = Counter()
        self._rng = Random(3)
        self._in_flight = []
        self._numbers = count()

    def run(self, seconds):
        """Shares of the requests in this time, by replica."""
        self.picked.clear()
        until = self.now + seconds
        while self.now < until:
            self._settle_until(self.now)
            pool = self.pools[next(self._numbers) % len(self.pools)]
            attempt = pool.begin(1.0, self.now)
            name = attempt.replica.name
            self.picked[name] += 1
            takes_s = self.at_once_s if name in self.at_once else 0.1 * self._rng.uniform(0.5, 1.5)
            heappush(self._in_flight, (self.now + takes_s, next(self._numbers), pool, attempt))
            self.now += self._rng.expovariate(self.rate)
        self._settle_until(self.now)
        return {name: picked / self.picked.total() for name, picked in self.picked.items()}

    def _settle_until(self, now):
        while self._in_flight and self._in_flight[0][0] <= now:
            at, _, pool, attempt = heappop(self._in_flight)
            if attempt.replica.inspected:
                found = True if attempt.replica.name not in self.at_once else self.has_content
                if found is not None:
                    pool.has_result(attempt, found, at)
            attempt.settle(Outcome.SUCCESS, at)


@pytest.fixture
def traffic(make_pool):
    return Traffic(make_pool(4, slow_start_s=0))


@pytest.mark.parametrize("strategy", BY_LOAD)
@pytest.mark.parametrize("has_content", [False, None], ids=["empty", "not judged"])
def test_no_more_than_a_fair_share_whatever_the_strategy(make_pool, strategy, has_content):
    traffic = Traffic(make_pool(4, strategy=strategy, slow_start_s=0))
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, has_content
    assert traffic.run(20.0).get("r0", 0.0) <= 0.28


@pytest.mark.parametrize("strategy", BY_LOAD)
def test_nor_does_one_that_is_only_twice_as_fast_and_empty(make_pool, strategy):
    traffic = Traffic(make_pool(4, strategy=strategy, slow_start_s=0))
    traffic.run(10.0)
    traffic.at_once, traffic.has_content, traffic.at_once_s = {"r0"}, False, 0.05
    assert traffic.run(20.0).get("r0", 0.0) <= 0.28
    traffic.at_once = set()
    traffic.run(3.0)
    assert not traffic.pools[0].replicas[0].doubt.since


def test_where_all_answers_are_empty_nobody_is_held(traffic):
    traffic.has_content, traffic.at_once_s = False, 0.1
    traffic.at_once = {"r0", "r1", "r2", "r3"}
    traffic.run(20.0)
    assert not any(replica.doubt.since for replica in traffic.pools[0].replicas)


@pytest.mark.parametrize("shared", [True, False], ids=["workers", "proxies"])
def test_nor_with_four_workers_or_proxies(make_snapshot, block, shared):
    snapshot = make_snapshot(4, slow_start_s=0)
    pools = [
        Pool(snapshot, SharedCounters.attach(block.fd, one) if shared else None, Random(one))
        for one in range(WORKERS)
    ]
    traffic = Traffic(*pools, rate=100.0)
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, False
    assert traffic.run(20.0)["r0"] <= 0.30
    traffic.at_once = set()
    traffic.run(5.0)
    assert 0.17 <= traffic.run(10.0)["r0"] <= 0.33
    assert not any(pool.replicas[0].doubt.since for pool in pools)


def test_it_is_said(traffic):
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, False
    traffic.run(5.0)
    [pool] = traffic.pools
    [one] = [one for one in pool.explain(traffic.now) if one.name == "r0"]
    assert one.eligible
    assert one.asked
    assert one.reasons == [
        "in doubt: its answers are empty, and those of other replicas are not, "
        "so it gets no more than its fair share"
    ]
    reported = {one.name: one.doubt for one in pool.report(traffic.now).replicas}
    assert reported == {"r0": one.reasons[0], "r1": "", "r2": "", "r3": ""}


def test_twenty_whole_answers_show_that_it_is_right(traffic):
    """A cache, or new hardware: from then on it gets what the strategy gives it."""
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, True
    traffic.run(2.0)
    assert traffic.run(10.0)["r0"] > 0.5
    assert not words(traffic.pools[0].replicas[0], traffic.now)


def test_what_was_shown_is_the_measure_for_others_too(traffic):
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, True
    traffic.run(3.0)
    traffic.at_once = {"r0", "r1"}
    traffic.run(12.0)
    assert not any(replica.doubt.since for replica in traffic.pools[0].replicas)


def test_workers_agree_on_what_was_shown(make_snapshot, block):
    snapshot = make_snapshot(4, slow_start_s=0)
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, one), Random(one)) for one in range(WORKERS)]
    traffic = Traffic(*pools)
    traffic.run(10.0)
    traffic.at_once, traffic.has_content = {"r0"}, True
    traffic.run(5.0)
    assert traffic.run(5.0)["r0"] > 0.5
    assert not any(pool.replicas[0].doubt.since for pool in pools)


def test_a_second_time_is_seen_as_the_first_one(traffic):
    """What was doubted is no measure of what is usual."""
    traffic.run(10.0)
    for _ in range(3):
        traffic.at_once, traffic.has_content = {"r0"}, False
        assert traffic.run(20.0)["r0"] <= 0.28
        traffic.at_once = set()
        traffic.run(10.0)
        assert 0.2 <= traffic.run(5.0)["r0"] <= 0.3


def test_where_all_are_faster_nobody_is_held(traffic):
    traffic.run(10.0)
    traffic.at_once = {"r0", "r1", "r2", "r3"}
    traffic.run(2.0)
    assert not any(replica.doubt.since for replica in traffic.pools[0].replicas)


def test_one_that_is_only_twice_as_fast_is_not_doubted(make_pool):
    pool = make_pool(4, slow_start_s=0)
    traffic = Traffic(pool)
    traffic.run(20.0)
    limit = pool.replicas[0].doubt.fast_below
    assert limit > 0
    assert not any(replica.doubt.is_fast for replica in pool.replicas)


def test_a_small_part_of_the_traffic_makes_nobody_look_fast(make_pool):
    """A weight says how fast hardware is, or how much of the traffic a new version is to get."""
    traffic = Traffic(make_pool([{"weight": 0.05}, {}, {}, {}], strategy="random"))
    traffic.run(30.0)
    assert not any(replica.doubt.since or replica.doubt.ended_at for replica in traffic.pools[0].replicas)


def test_fast_hardware_is_as_fast_as_its_weight_says(make_pool):
    traffic = Traffic(make_pool([{"weight": 100.0}, {}, {}, {}], slow_start_s=0))
    traffic.at_once = {"r0"}
    traffic.run(20.0)
    assert not any(replica.doubt.since or replica.doubt.ended_at for replica in traffic.pools[0].replicas)
    assert traffic.run(5.0)["r0"] > 0.9


def test_a_new_worker_takes_over_the_doubt(make_snapshot, block):
    snapshot = make_snapshot(4, slow_start_s=0)
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, one), Random(one)) for one in (0, 1)]
    traffic = Traffic(*pools)
    traffic.run(10.0)
    traffic.at_once = {"r0"}
    traffic.run(5.0)
    new = Pool(snapshot, SharedCounters.attach(block.fd, 2), Random(2))
    traffic.pools = (*pools, new)
    traffic.run(1.0)
    assert traffic.run(30.0)["r0"] <= 0.28
    assert new.replicas[0].doubt.since


def test_a_retry_goes_to_it_if_no_other_is_left(make_pool):
    pool = make_pool(2, slow_start_s=0)
    traffic = Traffic(pool)
    traffic.run(10.0)
    traffic.at_once = {"r0"}
    traffic.run(5.0)
    assert pool.replicas[0].doubt.since
    for _ in range(10):
        attempt = pool.begin(1.0, traffic.now, excluded=(pool.replicas[1],))
        assert attempt.replica is pool.replicas[0]
        attempt.settle(Outcome.CANCELLED, traffic.now)


def test_one_in_doubt_gets_some_while_no_other_has_a_slot(make_pool):
    """They hang, and nothing but its answers shows it."""
    pool = make_pool(2, max_concurrency=2)
    doubted = pool.replicas[1]
    doubted.doubt.since = 0.5
    pool.refresh(1.0)
    held = []
    while isinstance(attempt := pool.begin(1.0, 1.0), Attempt):
        held.append(attempt)
        if attempt.replica is doubted:
            attempt.settle(Outcome.SUCCESS, 1.0)
            held.pop()
        assert len(held) <= 2
    assert [attempt.replica for attempt in held] == [pool.replicas[0]] * 2
    got, now = 0, 1.0
    while now < 3.0:
        attempt = pool.begin(1.0, now)
        if isinstance(attempt, Attempt):
            assert attempt.replica is doubted
            attempt.settle(Outcome.CANCELLED, now)
            got += 1
        now += 0.01
    assert 6 <= got <= 9
