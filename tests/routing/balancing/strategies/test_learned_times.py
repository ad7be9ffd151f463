"""Strategies that go by learned times: a slow replica is tried again, and a new one begins at the median."""

from collections import Counter
from heapq import heappop, heappush
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome

BY_TIME = ("least_expected_work", "least_response_time", "peak_ewma", "prequal")


def answers(pool, seconds_of, begin, end, step=0.02):
    """A request each ``step``, answered after 0.5 to 1.5 of what its replica takes; who was asked."""
    asked = Counter()
    rng = Random(3)
    ends = []
    for i in range(int((end - begin) / step)):
        now = begin + i * step
        while ends and ends[0][0] <= now:
            at, _, attempt = heappop(ends)
            attempt.settle(Outcome.SUCCESS, at)
        attempt = pool.begin(1.0, now)
        asked[attempt.replica.name] += 1
        heappush(ends, (now + seconds_of[attempt.replica.name] * rng.uniform(0.5, 1.5), i, attempt))
    for at, _, attempt in sorted(ends):
        attempt.settle(Outcome.SUCCESS, at)
    return asked


@pytest.mark.parametrize("strategy", BY_TIME)
def test_a_slow_replica_is_tried_again_when_it_has_been_idle(make_pool, strategy):
    pool = make_pool(4, strategy=strategy)
    times = dict.fromkeys(("r0", "r1", "r2", "r3"), 0.05)
    avoided = answers(pool, times | {"r0": 2.0}, 1.0, 11.0)
    assert avoided["r0"] < 50
    answers(pool, times, 13.0, 73.0)
    again = answers(pool, times, 73.0, 83.0)
    assert again["r0"] > 25


@pytest.mark.parametrize("strategy", BY_TIME)
def test_a_new_replica_begins_at_the_pools_median(make_pool, make_snapshot, strategy):
    """Neither fast because nobody knows better, nor slow because nobody knows it."""
    pool = make_pool(3, strategy=strategy, slow_start_s=0)
    answers(pool, {"r0": 0.2, "r1": 0.4, "r2": 0.8}, 1.0, 31.0)
    pool.replace(make_snapshot(4, version=2, strategy=strategy, slow_start_s=0))
    pool.refresh(31.1)
    known = [replica.seconds_per_work for replica in pool.replicas]
    assert known[3] == pytest.approx(sorted(known[:3])[1], rel=0.1)
    if strategy in ("least_response_time", "peak_ewma", "prequal"):
        answer_s = [replica.answer_s for replica in pool.replicas]
        assert min(answer_s[:3]) * 0.99 <= answer_s[3] <= max(answer_s[:3])
