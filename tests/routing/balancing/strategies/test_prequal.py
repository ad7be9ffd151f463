"""Prequal: hot and cold replicas. Seeds are stated; nothing sleeps."""

from collections import Counter
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome

SPEEDS = [1.0] * 6 + [2.0] * 6 + [4.0] * 4
RATE_AT_85_PERCENT = 0.85 * 4 * sum(SPEEDS) / 0.058


def bimodal(rng):
    """90 % of requests 20 ms and 10 % 400 ms at speed 1; the estimate is off by lognormal noise, sigma 1."""
    seconds = 0.02 if rng.random() < 0.9 else 0.4
    return seconds, seconds * 1000 * rng.lognormvariate(0, 1)


def teach(pool, seconds, now=1.0, rounds=40):
    """Each replica answers alone, in so many seconds; returns the time after."""
    for _ in range(rounds):
        for replica in pool.replicas:
            others = tuple(one for one in pool.replicas if one is not replica)
            pool.begin(1.0, now, others).settle(Outcome.SUCCESS, now + seconds[replica.name])
        now += 0.1
    pool.refresh(now + 0.2)
    return now + 0.2


def test_the_fastest_of_the_cold_is_picked_until_it_is_hot(make_pool):
    """Idle, all are cold, and r3 is the fastest; with one more in flight than anybody it is hot."""
    pool = make_pool(5, strategy="prequal")
    now = teach(pool, {"r0": 0.4, "r1": 0.3, "r2": 0.2, "r3": 0.05, "r4": 0.1})
    held = [pool.begin(1.0, now) for _ in range(5)]
    assert [attempt.replica.name for attempt in held] == ["r3", "r4", "r2", "r1", "r0"]
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, now)


def test_where_all_are_hot_the_least_loaded_is_picked(make_pool):
    """A burst within one look at the pool: by load for the weight, whoever is fast."""
    pool = make_pool([{"weight": 3.0}, {}, {}], strategy="prequal")
    now = teach(pool, {"r0": 0.15, "r1": 0.05, "r2": 0.05})
    held = [pool.begin(1.0, now) for _ in range(50)]
    assert [replica.in_flight for replica in pool.replicas] == [30, 10, 10]
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, now)


@pytest.mark.parametrize(("quantile", "fastest"), [(0.0, 10), (1.0, 37)])
def test_the_quantile_leads_from_load_to_speed(make_pool, quantile, fastest):
    """40 requests stay, one look at the pool each; r0 is the fastest at any load."""
    pool = make_pool(4, strategy="prequal", parameters={"quantile": quantile})
    now = teach(pool, {"r0": 0.01, "r1": 0.2, "r2": 0.2, "r3": 0.2})
    held = []
    for _ in range(40):
        held.append(pool.begin(1.0, now))
        now += 0.11
    assert pool.replicas[0].in_flight == fastest if quantile == 0.0 else pool.replicas[0].in_flight >= fastest
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, now)


def test_an_answer_tells_of_the_load_it_had(make_pool):
    """One replica: 50 ms alone, 400 ms among eight. What it takes is known apart."""
    pool = make_pool(1, strategy="prequal")
    (replica,), now = pool.replicas, 1.0
    for _ in range(40):
        now += 1.0
        pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 0.05)
        held = [pool.begin(1.0, now) for _ in range(8)]
        for attempt in held:
            attempt.settle(Outcome.SUCCESS, now + 0.4)
    pool.refresh(now + 0.3)
    reading = replica.speed_by_load.reading
    assert reading[0] == pytest.approx(0.05 + (0.4 - 0.05) / 2, rel=0.2)  # the last of each eight is alone
    assert reading[2] == pytest.approx(0.4, rel=0.1)
    assert reading[9] == pytest.approx(replica.seconds_per_work, rel=0.1)


def test_a_stream_tells_of_each_load_that_it_has_seen(make_pool):
    """It is one token each 10 ms while it is alone, one each 50 ms among five."""
    pool = make_pool(1, strategy="prequal")
    (replica,), now = pool.replicas, 1.0
    pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 1.0, 100)
    assert sum(replica.speed_by_load.units) == pytest.approx(1.0)
    usual = replica.seconds_per_work
    stream = pool.begin(1.0, now)
    for _ in range(40):
        now += 0.3
        stream.heard(now, 30)
    others = [pool.begin(1.0, now) for _ in range(4)]
    for _ in range(20):
        now += 0.3
        stream.heard(now, 6)
    pool.refresh(now)
    reading = replica.speed_by_load.reading
    assert reading[1] < 2 * usual
    assert reading[3] > 3 * usual
    for attempt in (stream, *others):
        attempt.settle(Outcome.CANCELLED, now)


def test_learns_speeds_without_being_told_weights(make_pool, simulate):
    pool = make_pool(16, strategy="prequal")
    simulation = simulate(pool, SPEEDS, slots=4, seed=7)
    simulation.run(RATE_AT_85_PERCENT, until=9.0, sizes=bimodal)
    slow = sum(simulation.picked[f"r{i}"] for i in range(6)) / 6
    fast = sum(simulation.picked[f"r{i}"] for i in range(12, 16)) / 4
    assert fast > 2.5 * slow


@pytest.mark.long
def test_a_slowed_replica_does_not_make_the_tail(make_pool, simulate):
    """One of the fastest is three times slower for a third of the time: the tail is that of a good rule."""
    tails = {}
    for strategy in ("round_robin", "prequal"):
        pool = make_pool([{"weight": speed} for speed in SPEEDS], strategy=strategy)
        simulation = simulate(pool, SPEEDS, slots=4, seed=7)
        server = simulation.servers["r15"]
        events = {
            8.0: lambda server=server: setattr(server, "speed", 4 / 3),
            15.0: lambda server=server: setattr(server, "speed", 4.0),
        }
        simulation.run(RATE_AT_85_PERCENT, until=22.0, sizes=bimodal, events=events)
        tails[strategy] = simulation.p99()
    assert tails["prequal"] < 0.5
    assert tails["prequal"] < 0.1 * tails["round_robin"]


def test_a_replica_that_fails_at_once_gets_almost_nothing(make_pool):
    """The rule attracts fast failures; nothing may be ejected, the penalty alone has to do it."""
    pool = make_pool(4, strategy="prequal", ejection={"max_ejected_percent": 0.0})
    bad, rng, now, picks, ends = pool.replicas[0], Random(3), 1.0, Counter(), []
    for _ in range(8000):
        now += rng.expovariate(400)
        while ends and ends[0][0] <= now:
            at, _, attempt = ends.pop(0)
            attempt.settle(Outcome.FAILED if attempt.replica is bad else Outcome.SUCCESS, at)
        attempt = pool.begin(1.0, now)
        picks[attempt.replica.name] += 1
        ends.append((now + (0.001 if attempt.replica is bad else 0.05), len(picks), attempt))
        ends.sort(key=lambda end: end[0])
    for at, _, attempt in ends:
        attempt.settle(Outcome.CANCELLED, at)
    assert bad.ejection.count == 0
    assert picks["r0"] / 8000 < 0.02
