"""Estimates of work, corrected by what requests took: the regression alone, and in pools."""

from random import Random
from statistics import fmean

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.cost_calibration import CostCalibration, octave

RNG = Random


def learned(told, answers=4000, seed=1):
    """After so many lognormal requests, of which ``told(work, rng)`` was told."""
    calibration, rng = CostCalibration(), Random(seed)
    for _ in range(answers):
        work = rng.lognormvariate(4.0, 1.0)
        calibration.learn(told(work, rng), work)
    calibration.refresh()
    return calibration


def test_estimates_that_are_right_are_left_alone():
    calibration = learned(lambda work, rng: work)
    assert calibration.factors is None
    assert calibration.explained > 0.9


def test_a_scale_is_no_error():
    assert learned(lambda work, rng: 1000 * work).factors is None


def test_the_noisier_estimates_are_the_nearer_they_come_to_the_mean():
    spreads = []
    for sigma in (0.5, 1.0, 3.0):
        calibration = learned(lambda work, rng, s=sigma: work * rng.lognormvariate(0.0, s))
        factors = calibration.factors
        mean = calibration.all.estimated
        spreads.append(factors[octave(8 * mean)] * 8 / (factors[octave(mean / 8)] / 8))
    assert 64 > spreads[0] > spreads[1] > spreads[2]


def test_a_limit_that_everybody_sets_counts_as_the_usual_answer():
    """Half say 4096 whatever they want, the others what they will take."""
    calibration = learned(lambda work, rng: 4096.0 if rng.random() < 0.5 else work)
    factors = calibration.factors
    few, many = factors[octave(50.0)] * 50.0, factors[octave(4096.0)] * 4096.0
    assert many / few == pytest.approx(fmean((90.0,)) / 50.0, rel=0.4)
    assert 0.1 < calibration.explained < 0.9


def test_the_mean_work_stays_what_was_told():
    rng = Random(2)
    calibration = learned(lambda work, rng: work * rng.lognormvariate(0.0, 1.0))
    told = [rng.lognormvariate(4.0, 1.0) * rng.lognormvariate(0.0, 1.0) for _ in range(20_000)]
    corrected = [one * calibration.factors.get(octave(one), 1.0) for one in told]
    assert fmean(corrected) == pytest.approx(fmean(told), rel=0.3)


def test_one_answer_that_took_for_ever_does_not_carry_the_mean_away():
    calibration = learned(lambda work, rng: work)
    calibration.learn(60.0, 1e15)
    assert calibration.all.taken < 500


def serve(pool, requests, rng, now=1.0):
    """One after another: (told, seconds, tokens)."""
    for told, seconds, tokens in requests:
        now += 0.02
        attempt = pool.begin(told, now)
        assert isinstance(attempt, Attempt)
        attempt.settle(Outcome.SUCCESS, now + seconds, tokens)
    return now


def test_a_pool_corrects_what_it_is_told(make_pool):
    pool, rng = make_pool(2), Random(1)
    work = [rng.lognormvariate(4.0, 0.5) for _ in range(1500)]
    serve(pool, [(4096.0 if one % 2 else w, w / 1000, 0) for one, w in enumerate(work)], rng)
    long, short = pool.begin(4096.0, 40.0), pool.begin(60.0, 40.0)
    assert long.work / short.work < 3
    assert (long.uncalibrated_work, short.uncalibrated_work) == (4096.0, 60.0)
    report = pool.report(40.0)
    assert report.estimates_corrected
    assert report.estimates_explain is not None


def test_a_missing_limit_is_the_prompt_and_the_usual_answer(make_pool):
    pool = make_pool(2)
    assert pool.begin(-10.0, 1.0).work == 266.0
    serve(pool, [(-10.0, 0.1, 40)] * 50, None)
    assert pool.report(9.0).answer_tokens == pytest.approx(40.0)
    usual, long = pool.begin(-10.0, 9.0), pool.begin(-500.0, 9.0)
    assert usual.work == pytest.approx(50.0, rel=0.35)
    assert long.work == pytest.approx(540.0, rel=0.35)


def test_unknown_work_alone_does_not_grow(make_pool):
    pool = make_pool(2)
    serve(pool, [(-10.0, 0.1, 0), (0.0, 0.1, 0)] * 200, None)
    assert pool.speed.mean_work < 400


def test_what_reserves_memory_counts_as_told(make_pool):
    pool, rng = make_pool(2), Random(1)
    for replica in pool.replicas:
        replica.memory = Unlimited()
    serve(pool, [(4096.0 if n % 2 else 50.0, 0.05, 0) for n in range(600)], rng)
    assert pool.speed.calibration.factors is not None
    assert pool.begin(4096.0, 40.0).work == 4096.0


class Unlimited:
    """Memory that never runs short."""

    def short(self, ask):
        return None

    def why_not(self, ask):
        return ""

    def claim(self, ask):
        return True

    def unclaim(self):
        """Nothing was."""

    def begun(self, attempt):
        """Nothing is counted."""

    def give_back(self, attempt):
        """Nothing was."""

    def __getattr__(self, name):
        return lambda *_: None
