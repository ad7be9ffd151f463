"""A replica that would be ejected, were it not for the limit on ejections."""

from collections import Counter
from random import Random

import pytest

from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.replica.client_source import ClientSource

NONE_OUT = {"max_ejected_percent": 0}


@pytest.fixture
def pool(make_pool):
    return make_pool(4, strategy="round_robin", ejection=NONE_OUT)


def asked(pool, send, now, times=1000):
    return Counter(send(pool, now) for _ in range(times))


def test_it_gets_next_to_nothing_for_a_failures_time(pool, send, fail, caplog):
    caplog.set_level("INFO")
    fail(pool, "r0", 5, 1.0)
    # Not one request in a hundred of its own, or one would have ended it.
    begun = Counter(pool.begin(1.0, 1.02).replica.name for _ in range(1204))
    assert begun == pytest.approx({"r0": 4, "r1": 400, "r2": 400, "r3": 400}, abs=1)
    assert "replica r0 of fleet digits gets next to nothing for 5 s" in caplog.text
    assert asked(pool, send, 6.1)["r0"] == pytest.approx(250, abs=1)


def test_it_is_said(pool, fail):
    fail(pool, "r0", 5, 1.0)
    explained = {one.name: one for one in pool.explain(2.0)}
    assert explained["r0"].asked
    assert explained["r0"].reasons == [
        "asked next to nothing for another 4 s: it fails, and no more may be ejected"
    ]
    assert explained["r1"].reasons == []


def test_a_success_ends_it(pool, send, fail):
    begun = pool.begin(1.0, 0.9)
    while begun.replica.name != "r0":
        begun = pool.begin(1.0, 0.9)
    fail(pool, "r0", 5, 1.0)
    begun.settle(Outcome.SUCCESS, 1.1)
    assert asked(pool, send, 1.2)["r0"] == pytest.approx(250, abs=1)


def test_one_that_failed_often_is_judged_anew_after_it(pool):
    def send_for(begin, end, failing):
        for i in range(int((end - begin) / 0.01)):
            attempt = pool.begin(1.0, begin + i * 0.01)
            is_r0 = attempt.replica.name == "r0"
            bad = is_r0 and failing and attempt.replica.picked % 2
            attempt.settle(Outcome.FAILED if bad else Outcome.SUCCESS, begin + i * 0.01 + 0.005)
            yield is_r0

    assert sum(send_for(1.0, 11.0, failing=True)) < 100
    list(send_for(11.0, 17.0, failing=False))
    assert sum(send_for(17.0, 27.0, failing=False)) == pytest.approx(250, abs=5)


def test_more_failures_make_it_last(pool, fail, send):
    fail(pool, "r0", 5, 1.0)
    fail(pool, "r0", 1, 4.0)
    begun = [pool.begin(1.0, 7.0).replica.name for _ in range(90)]
    assert begun.count("r0") <= 1


@pytest.mark.parametrize("strategy", ["round_robin", "random", "latency_aware"])
def test_it_has_no_place_where_all_others_are_taken(make_pool, fail, strategy):
    pool = make_pool(4, strategy=strategy, max_concurrency=2, ejection=NONE_OUT)
    fail(pool, "r0", 5, 1.0)
    held = [pool.begin(1.0, 1.02) for _ in range(6)]
    assert {attempt.replica.name for attempt in held} == {"r1", "r2", "r3"}
    for now in (1.03, 2.0, 5.0):
        assert isinstance(pool.begin(1.0, now), Rejection)
    assert pool.begin(1.0, 6.1).replica.name == "r0"


@pytest.mark.parametrize(("replicas", "set_back"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_half_of_a_pool_is_left_as_it_is(make_pool, replicas, set_back):
    pool = make_pool(replicas, strategy="round_robin", ejection=NONE_OUT)
    for _ in range(40):
        pool.begin(1.0, 1.0).settle(Outcome.FAILED, 1.01)
    assert sum(replica.ejection.soft_until > 0 for replica in pool.replicas) == set_back


def test_those_that_are_ejected_count_with_them(make_pool):
    pool = make_pool(8, strategy="round_robin", ejection={"max_ejected_percent": 25})
    for _ in range(80):
        pool.begin(1.0, 1.0).settle(Outcome.FAILED, 1.01)
    assert sum(replica.ejection.until > 0 for replica in pool.replicas) == 2
    assert sum(replica.ejection.soft_until > 0 for replica in pool.replicas) == 2


@pytest.mark.parametrize("strategy", ["round_robin", "least_connections", "latency_aware"])
def test_a_replica_that_fails_now_and_then_is_not_set_back(make_pool, strategy):
    pool, rng = make_pool(4, strategy=strategy, ejection=NONE_OUT), Random(1)
    for i in range(4000):
        attempt = pool.begin(1.0, 1.0 + i * 0.01)
        bad = attempt.replica.name == "r0" and rng.random() < 0.05
        attempt.settle(Outcome.FAILED if bad else Outcome.SUCCESS, 1.005 + i * 0.01)
        assert not attempt.replica.ejection.soft_until
    assert pool.replicas[0].failed > 5


def test_a_clients_own_failures_set_nobody_back(pool):
    for i in range(200):
        attempt = pool.begin(1.0, 1.0 + i * 0.01)
        attempt.source = ClientSource(7, 1000 + i)
        attempt.settle(Outcome.FAILED, 1.005 + i * 0.01)
    # Where it failed first there was no telling.
    assert sum(replica.ejection.soft_until > 2.5 for replica in pool.replicas) == 0
