"""Rest: replicas that refuse requests get none for a while, and are not ejected."""

from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier import resting
from routing.balancing.pool.pool import Pool

NOW = 100.0


def picked(pool: Pool, now: float, times: int = 20) -> set[str]:
    names = set()
    for _ in range(times):
        attempt = pool.begin(1.0, now)
        names.add(attempt.replica.name)
        attempt.settle(Outcome.SUCCESS, now)
    return names


@pytest.mark.parametrize(("asked_s", "least"), [(5.0, 5.0), (600.0, resting.LONGEST_S)])
@pytest.mark.parametrize("status", [429, 503])
def test_it_rests_as_long_as_it_asks(make_pool, status, asked_s, least):
    pool = make_pool(3, strategy="round_robin")
    pool.refused(pool.replicas[0], status, asked_s, NOW)
    until = pool.replicas[0].ejection.rests_until
    assert least <= until - NOW <= least * (1 + resting.JITTER)
    assert picked(pool, NOW) == {"r1", "r2"}
    assert "rests for another" in pool.explain(NOW)[0].reasons[0]
    assert picked(pool, until + 0.01) == {"r0", "r1", "r2"}


def test_without_a_word_429_doubles_and_503_is_a_failure(make_pool):
    pool = make_pool(2)
    replica = pool.replicas[0]
    lasted = []
    now = NOW
    for _ in range(12):
        assert resting.refused(replica, 429, -1.0, now, Random(1))
        lasted.append(replica.ejection.rests_until - now)
        now = replica.ejection.rests_until + 0.1
    assert lasted[1] == pytest.approx(2 * lasted[0])
    assert lasted[-1] <= resting.LONGEST_S * (1 + resting.JITTER)
    replica.succeeded += 1
    assert resting.refused(replica, 429, -1.0, now, Random(1))
    assert replica.ejection.rests_until - now == pytest.approx(lasted[0])
    assert not resting.refused(pool.replicas[1], 503, -1.0, now, Random(1))
    assert not resting.refused(pool.replicas[1], 429, 0.0, now, Random(1)), "again at once, it says"


def test_a_resting_replica_is_better_than_none(make_pool):
    pool = make_pool(2, strategy="round_robin")
    for replica in pool.replicas:
        pool.refused(replica, 503, 5.0, NOW)
    assert picked(pool, NOW) == {"r0", "r1"}


def test_what_waits_goes_on_when_the_rest_is_over(make_pool):
    """A queue before two replicas with one slot each, one of them at rest."""
    pool = make_pool(2, strategy="round_robin", max_concurrency=1)
    pool.refused(pool.replicas[0], 429, 1.0, NOW)
    assert pool.begin(1.0, NOW).replica.name == "r1"
    assert not pool.has_other_than((), NOW)
    assert pool.has_other_than((), NOW + 1.3)


def test_most_refuse(make_pool):
    pool = make_pool(4, strategy="round_robin")
    a, b, c, _ = pool.replicas
    pool.refresh(NOW)
    for replica in (a, b, c):
        assert not pool.most_refuse((a,), NOW)
        pool.refused(replica, 500, -1.0, NOW)
    assert pool.most_refuse((a,), NOW)
    assert not pool.most_refuse((a, b), NOW), "one of two"
    assert not pool.most_refuse((a,), NOW + resting.REFUSING_S + 0.1)
    b.succeeded += 1
    assert not pool.most_refuse((a,), NOW)
