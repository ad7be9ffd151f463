"""Strategies that go by answer times: least response time and peak EWMA. Seeds are stated; nothing sleeps."""

from collections import Counter
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome

SPEEDS = [1.0] * 6 + [2.0] * 6 + [4.0] * 4
BOTH = pytest.mark.parametrize("strategy", ["least_response_time", "peak_ewma"])


def constant(rng):
    return 0.05, 1.0


def teach(pool, seconds, start=1.0, rounds=40):
    """Let each replica answer so many times, each as slowly as ``seconds`` says; returns the time after."""
    now = start
    for _ in range(rounds):
        held = [pool.begin(1.0, now) for _ in pool.replicas]
        for attempt in held:
            attempt.settle(Outcome.SUCCESS, now + seconds[attempt.replica.name])
        now += 0.1
    pool.refresh(now)
    return now


@BOTH
def test_when_everything_is_new_it_fills_by_weight(make_pool, strategy):
    pool = make_pool([{"weight": 3.0}, {"weight": 1.0}], strategy=strategy)
    held = [pool.begin(1.0, 1.0) for _ in range(40)]
    assert [replica.in_flight for replica in pool.replicas] == [30, 10]
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.0)


@BOTH
def test_learns_speeds_without_being_told_weights(make_pool, simulate, strategy):
    pool = make_pool(16, strategy=strategy)
    simulation = simulate(pool, SPEEDS, slots=4, seed=7)
    simulation.run(0.6 * 4 * sum(SPEEDS) / 0.05, until=6.0, sizes=constant)
    slow = sum(simulation.picked[f"r{i}"] for i in range(6)) / 6
    fast = sum(simulation.picked[f"r{i}"] for i in range(12, 16)) / 4
    assert fast > 2.0 * slow
    known = {replica.name: replica.answer_s for replica in pool.replicas}
    assert known["r0"] > 2 * known["r15"]


@BOTH
def test_beats_random_on_unequal_replicas(make_pool, simulate, strategy):
    means = {}
    for name in ("random", strategy):
        pool = make_pool([{"weight": speed} for speed in SPEEDS], strategy=name)
        simulation = simulate(pool, SPEEDS, slots=4, seed=7)
        simulation.run(0.8 * 4 * sum(SPEEDS) / 0.05, until=6.0, sizes=constant)
        means[name] = simulation.mean()
    assert means[strategy] < 0.8 * means["random"]


@BOTH
def test_a_dead_slow_replica_gets_almost_nothing(make_pool, simulate, strategy):
    pool = make_pool(8, strategy=strategy)
    simulation = simulate(pool, [0.02] + [1.0] * 7, slots=4, seed=7)
    simulation.run(300.0, until=11.0, sizes=constant)
    assert simulation.picked["r0"] / simulation.picked.total() < 0.02


@BOTH
def test_a_replica_that_fails_at_once_gets_almost_nothing(make_pool, strategy):
    """Nothing may be ejected: counting a failure as a slow answer alone has to do it."""
    pool = make_pool(4, strategy=strategy, ejection={"max_ejected_percent": 0.0})
    bad, rng, now, picks, ends = pool.replicas[0], Random(3), 1.0, Counter(), []
    for _ in range(4000):
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
    assert picks["r0"] / 4000 < 0.01


def test_peak_ewma_leaves_after_one_slow_answer_and_the_mean_does_not(make_pool):
    """After 40 answers of 50 ms at each, r0 answers once in 2 s."""
    readings = {}
    for strategy in ("peak_ewma", "least_response_time"):
        pool = make_pool(2, strategy=strategy)
        now = teach(pool, {"r0": 0.05, "r1": 0.05})
        held = [pool.begin(1.0, now), pool.begin(1.0, now)]
        for attempt in held:
            attempt.settle(Outcome.SUCCESS, now + (2.0 if attempt.replica.name == "r0" else 0.05))
        readings[strategy] = pool.replicas[0].answer_s
    assert readings["peak_ewma"] == pytest.approx(2.0)
    assert readings["least_response_time"] < 0.2


def test_a_peak_falls_with_tau(make_pool):
    """Every 0.5 s one answer of 50 ms: after τ = 10 s a third of a peak of 2 s is left."""
    pool = make_pool(1, strategy="peak_ewma")
    attempt = pool.begin(1.0, 1.0)
    attempt.settle(Outcome.SUCCESS, 3.0)
    now = 3.0
    while now < 13.0:
        attempt = pool.begin(1.0, now + 0.45)
        attempt.settle(Outcome.SUCCESS, now := now + 0.5)
    assert pool.replicas[0].answer_s == pytest.approx(0.05 + 1.95 / 2.718, abs=0.15)


@BOTH
def test_an_idle_replica_is_tried_again(make_pool, strategy):
    """Slow once, then idle: within a few τ its answer time is what the pool expects."""
    pool = make_pool(3, strategy=strategy, parameters={"tau_s": 5})
    now = teach(pool, {"r0": 1.0, "r1": 0.05, "r2": 0.05})
    began, idle_until = now, 0.0
    while not idle_until and now < began + 60:
        now += 0.1
        held = [pool.begin(1.0, now) for _ in range(3)]
        for attempt in held:
            attempt.settle(Outcome.SUCCESS, now + 0.05)
        if "r0" in {attempt.replica.name for attempt in held}:
            idle_until = now
    assert 2 < idle_until - began < 30


@BOTH
def test_what_was_learned_survives_changes_of_strategy(make_pool, make_snapshot, strategy):
    pool = make_pool(2, strategy=strategy)
    now = teach(pool, {"r0": 0.4, "r1": 0.1})
    known = pool.replicas[0].answer_s
    pool.replace(make_snapshot(2, version=2, strategy="round_robin"))
    pool.refresh(now)
    assert pool.speed.latency_tracker is None
    pool.replace(make_snapshot(2, version=3, strategy=strategy, parameters={"tau_s": 20}))
    pool.refresh(now)
    assert pool.replicas[0].answer_s == pytest.approx(known, rel=0.2)
    assert pool.replicas[0].answer_s > 2 * pool.replicas[1].answer_s


@BOTH
def test_it_starts_from_what_the_default_strategy_has_learned(make_pool, make_snapshot, strategy):
    pool = make_pool(2, strategy="least_expected_work")
    now = teach(pool, {"r0": 0.4, "r1": 0.1})
    pool.replace(make_snapshot(2, version=2, strategy=strategy))
    pool.refresh(now)
    slow, fast = pool.replicas
    assert slow.answer_s > 1.5 * fast.answer_s
    assert fast.answer_s < 0.4


@BOTH
def test_memory_is_never_shorter_than_three_mean_answers(make_pool, strategy):
    pool = make_pool(2, strategy=strategy, parameters={"tau_s": 1})
    now = teach(pool, {"r0": 20.0, "r1": 20.0}, rounds=200)
    pool.refresh(now)
    assert pool.speed.latency_tracker.tau_s == pytest.approx(60.0, rel=0.1)


@BOTH
def test_back_from_ejection_nothing_is_held_against_it(make_pool, strategy):
    pool = make_pool(4, strategy=strategy, ejection={"consecutive_failures": 1})
    now = teach(pool, {f"r{i}": 0.05 for i in range(4)})
    bad = pool.replicas[0]
    for attempt in [pool.begin(1.0, now) for _ in range(12)]:
        attempt.settle(Outcome.FAILED if attempt.replica is bad else Outcome.CANCELLED, now + 0.01)
    assert bad.ejection.until
    assert bad.answer_s > 0.3
    now = bad.ejection.until + 0.1
    probe = pool.begin(1.0, now)
    assert probe.replica is bad
    probe.settle(Outcome.SUCCESS, now + 0.05)
    pool.refresh(now + 0.1)
    assert not bad.ejection.until
    assert bad.answer_s < 0.2


def test_streams_count_as_one_answer(make_pool):
    pool = make_pool(1, strategy="least_response_time")
    attempt = pool.begin(10.0, 1.0)
    attempt.settle(Outcome.SUCCESS, 3.0, output_tokens=100)
    assert pool.replicas[0].latency_memory.evidence.units == pytest.approx(1.0)
    assert pool.replicas[0].latency_memory.evidence.seconds == pytest.approx(2.0)
