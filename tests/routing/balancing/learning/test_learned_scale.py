"""Learned scales in the report: what strategies go by, how surely, and nothing where nothing is known."""

import pytest

from tests.routing.balancing.learning.test_doubt import answer


def learned(pool, now):
    pool.refresh(now)
    return {replica.name: replica.learned for replica in pool.report(now).replicas}


def taught(pool, seconds, since=1.0, until=11.0):
    """Ten responses a second of each replica that ``seconds`` names, in so many seconds each."""
    now = since
    while now < until:
        for name, each in seconds.items():
            answer(pool, name, each, now)
        now += 0.1
    return pool


def test_nothing_is_said_of_what_is_not_known(make_pool) -> None:
    pool = make_pool(3, max_concurrency=64)
    assert learned(pool, 1.0) == {"r0": None, "r1": None, "r2": None}
    found = learned(taught(pool, {"r0": 0.1, "r1": 0.1}), 11.1)
    assert found["r0"] is not None
    assert found["r2"] is None


def test_it_is_what_strategies_go_by(make_pool) -> None:
    pool = taught(make_pool(4, max_concurrency=64), {"r0": 0.1, "r1": 0.1, "r2": 0.1, "r3": 0.3})
    found = learned(pool, 11.1)
    base = pool.speed.base
    for replica in pool.replicas:
        assert found[replica.name].times_usual == pytest.approx(replica.cost * replica.ramp / base, rel=0.02)
    assert found["r0"].times_usual == 1.0
    assert 2.0 < found["r3"].times_usual < 3.5
    assert found["r3"].request_s == pytest.approx(0.3, rel=0.3)


def test_a_weight_is_part_of_what_is_usual(make_pool) -> None:
    replicas = [{"weight": 1.0}, {"weight": 1.0}, {"weight": 1.0}, {"weight": 2.0}]
    pool = taught(make_pool(replicas, max_concurrency=64), {"r0": 0.2, "r1": 0.2, "r2": 0.2, "r3": 0.1})
    found = learned(pool, 11.1)
    assert found["r3"].times_usual == 1.0
    assert found["r3"].request_s == pytest.approx(0.1, rel=0.2)


def test_more_requests_make_it_surer_and_a_rest_leaves_no_evidence(make_pool) -> None:
    speeds = {"r0": 0.1, "r1": 0.1, "r2": 0.1, "r3": 0.3}
    pool = make_pool(4, max_concurrency=64)
    few = learned(taught(pool, speeds, until=1.3), 1.4)["r3"]
    many = learned(taught(pool, speeds, since=1.4), 11.1)["r3"]
    assert 1.0 < many.error < few.error
    assert many.requests > few.requests > 0.5
    taught(pool, {"r0": 0.1, "r1": 0.1, "r2": 0.1}, since=11.1, until=41.0)
    rested = learned(pool, 41.1)["r3"]
    assert rested.requests < 0.5
    assert rested.times_usual == 1.0
