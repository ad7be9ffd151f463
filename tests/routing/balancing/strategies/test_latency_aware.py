"""Latency-aware round robin: what it does with a slow replica, and what it leaves alone. Seeds are stated."""

from collections import Counter

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.tail_weight import BOUND

SPEEDS = [1.0] * 6 + [2.0] * 6 + [4.0] * 4
RATE_AT_85_PERCENT = 0.85 * 4 * sum(SPEEDS) / 0.058


def bimodal(rng):
    """90 % of requests 20 ms and 10 % 400 ms at speed 1; the estimate is off by lognormal noise, sigma 1."""
    seconds = 0.02 if rng.random() < 0.9 else 0.4
    return seconds, seconds * 1000 * rng.lognormvariate(0, 1)


def weighted():
    return [{"weight": speed} for speed in SPEEDS]


def answer(pool, now, seconds, rounds=1):
    """Each replica answers so many requests, in so many seconds each; returns the time after."""
    for _ in range(rounds):
        held = [pool.begin(1.0, now) for _ in range(4 * len(pool.replicas))]
        for attempt in held:
            attempt.settle(Outcome.SUCCESS, now + seconds[attempt.replica.name])
        now += 0.1
    pool.refresh(now)
    return now


def slowed_in_the_middle(pool, simulate, seed):
    """In the middle third one of the fastest is three times slower; its share from 4 s after that on."""
    simulation = simulate(pool, SPEEDS, slots=4, seed=seed)
    server, marks = simulation.servers["r15"], []

    def at(speed):
        server.speed = speed
        marks.append(Counter(simulation.picked))

    events = {21.0: lambda: at(4 / 3), 25.0: lambda: at(4 / 3), 41.0: lambda: at(4.0)}
    simulation.run(RATE_AT_85_PERCENT, until=61.0, sizes=bimodal, events=events)
    then = marks[2] - marks[1]
    return simulation.p99(), then["r15"] / then.total()


@pytest.mark.long
def test_a_replica_slowed_threefold_loses_half_of_its_share_and_the_fleet_keeps_its_tail(make_pool, simulate):
    """Within 4 s, at 85 % load and with noisy estimates."""
    seed = 7
    tail, share = slowed_in_the_middle(make_pool(weighted(), strategy="latency_aware"), simulate, seed)
    blind, unchanged = slowed_in_the_middle(make_pool(weighted(), strategy="round_robin"), simulate, seed)
    fair = 4 / sum(SPEEDS)
    assert unchanged == pytest.approx(fair, rel=0.01)
    assert share <= 0.5 * fair
    assert tail <= 0.3 * blind


def test_true_weights_and_calm_replicas_keep_their_shares(make_pool, simulate):
    pool = make_pool(weighted(), strategy="latency_aware")
    simulation = simulate(pool, SPEEDS, slots=4, seed=7)
    simulation.run(0.5 * RATE_AT_85_PERCENT, until=16.0, sizes=bimodal)
    for replica, speed in zip(pool.replicas, SPEEDS, strict=True):
        assert 0.7 < replica.favour < 1.35
        assert simulation.picked[replica.name] / simulation.picked.total() == pytest.approx(
            speed / sum(SPEEDS), rel=0.25
        )


def test_large_requests_are_not_slowness(make_pool):
    """r0 gets those of ten times the work, which take ten times as long."""
    pool = make_pool(4, strategy="latency_aware")
    now = 1.0
    for _ in range(100):
        for replica in pool.replicas:
            others = tuple(one for one in pool.replicas if one is not replica)
            size = 10.0 if replica.name == "r0" else 1.0
            pool.begin(size, now, others).settle(Outcome.SUCCESS, now + 0.02 * size)
        now += 0.1
    pool.refresh(now)
    assert [replica.favour for replica in pool.replicas] == pytest.approx([1.0] * 4, rel=0.02)


def test_long_answers_are_not_slowness(make_pool):
    """Nobody has told how long they would be; r0 has got those that are eight times longer."""
    pool, now = make_pool(4, strategy="latency_aware"), 1.0
    for _ in range(200):
        held = [pool.begin(0.0, now) for _ in range(4)]
        for attempt in held:
            length = 8 if attempt.replica.name == "r0" else 1
            attempt.settle(Outcome.SUCCESS, now + 0.05 * length, output_tokens=20 * length)
        now += 0.1
    pool.refresh(now)
    assert [replica.favour for replica in pool.replicas] == pytest.approx([1.0] * 4, abs=0.02)


def test_favours_stay_in_bounds_and_move_in_seconds(make_pool):
    pool = make_pool(5, strategy="latency_aware")
    names = [replica.name for replica in pool.replicas]
    usual = dict.fromkeys(names, 0.02)
    now = answer(pool, 1.0, usual, rounds=50)
    slow, quick = pool.replicas[0], pool.replicas[1]
    hard = usual | {"r0": 20.0, "r1": 0.00001}
    now = answer(pool, now, hard, rounds=5)
    assert 1 / BOUND < slow.favour < 0.8
    now = answer(pool, now, hard, rounds=300)
    assert 1 / BOUND <= slow.favour < 0.6
    assert 2.5 < quick.favour <= BOUND
    answer(pool, now, usual, rounds=400)
    assert [replica.favour for replica in pool.replicas] == pytest.approx([1.0] * 5, rel=0.1)


def test_what_is_not_asked_goes_back_to_its_weight(make_pool):
    pool = make_pool(4, strategy="latency_aware", parameters={"tau_s": 2})
    usual = {f"r{number}": 0.02 for number in range(4)}
    now = answer(pool, 1.0, usual | {"r0": 2.0}, rounds=60)
    assert pool.replicas[0].favour < 0.6
    for _ in range(300):
        pool.refresh(now := now + 0.1)
    assert pool.replicas[0].favour == pytest.approx(1.0, rel=0.02)


def test_failures_count_as_slow_answers(make_pool):
    """Nothing may be ejected: its turns become fewer all the same."""
    pool = make_pool(4, strategy="latency_aware", ejection={"max_ejected_percent": 0.0})
    picks, now = Counter(), 1.0
    for _ in range(4000):
        attempt = pool.begin(1.0, now)
        bad = attempt.replica.name == "r0"
        attempt.settle(Outcome.FAILED if bad else Outcome.SUCCESS, now + (0.001 if bad else 0.05))
        picks[attempt.replica.name] += 1
        now += 0.0025
    assert picks["r0"] / 4000 < 0.5 * 0.25


def test_back_from_ejection_nothing_is_held_against_it(make_pool):
    pool = make_pool(4, strategy="latency_aware", ejection={"consecutive_failures": 1})
    usual = {f"r{number}": 0.02 for number in range(4)}
    now = answer(pool, 1.0, usual | {"r0": 2.0}, rounds=60)
    bad = pool.replicas[0]
    assert bad.favour < 0.6
    others = tuple(one for one in pool.replicas if one is not bad)
    pool.begin(1.0, now, others).settle(Outcome.FAILED, now + 0.01)
    now = bad.ejection.until + 0.1
    probe = pool.begin(1.0, now)
    assert probe.replica is bad
    probe.settle(Outcome.SUCCESS, now + 0.02)
    assert bad.favour == 1.0
