"""Completion and first token are predicted as intervals, and what they were off by is counted."""

from math import log
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.attempt.predicted_attempt import PredictedAttempt
from routing.balancing.learning.decayed_regression import DecayedRegression
from routing.balancing.learning.predictions import EVERY_S
from routing.balancing.learning.residuals import LEAST, MOST, Residuals
from tests.benchmarks import predictions


def test_residuals_give_the_share_that_they_claim_and_follow_what_changes() -> None:
    rng, residuals = Random(1), Residuals()
    for sigma in (0.5, 0.1):
        within = []
        for _ in range(10 * MOST):
            error = rng.gauss(0.2, sigma)
            within.append(residuals.low <= error <= residuals.high)
            residuals.learn(error)
        settled = within[MOST:]
        assert sum(settled) / len(settled) == pytest.approx(0.8, abs=0.03)
        assert residuals.median == pytest.approx(0.2, abs=0.1)


def test_few_residuals_are_not_believed() -> None:
    residuals = Residuals()
    for _ in range(LEAST - 1):
        residuals.learn(0.0)
    assert not residuals.known
    assert residuals.low < -1.0 < 1.0 < residuals.high
    residuals.learn(0.0)
    assert residuals.known
    assert residuals.low == residuals.median == residuals.high == 0.0


def test_regression_finds_coefficients_and_keeps_the_prior_of_what_never_varies() -> None:
    rng, model = Random(1), DecayedRegression((0.0, 0.0, 0.7), (0.01, 1.0, 1.0))
    for _ in range(300):
        feature = rng.uniform(-2.0, 2.0)
        model.learn((1.0, feature, 0.0), 3.0 - 0.5 * feature + rng.gauss(0.0, 0.1))
    assert model.coefficients == pytest.approx([3.0, -0.5, 0.7], abs=0.05)
    assert model.expected((1.0, 2.0, 1.0)) == pytest.approx(2.7, abs=0.15)


def test_the_first_request_of_each_half_second_is_compared_with_its_prediction(make_pool) -> None:
    pool, now = make_pool(1), 1.0
    kinds = []
    for _ in range(200):
        attempt = pool.begin(10.0, now)
        kinds.append(isinstance(attempt, PredictedAttempt))
        attempt.first_byte(now + 0.01)
        attempt.heard(now + 0.02, 1)
        attempt.settle(Outcome.SUCCESS, now + 0.1, 9)
        now += EVERY_S / 2
    assert sum(kinds) == 100
    report = pool.report(now)
    assert sum(report.prediction_error.values()) == 100 - LEAST
    assert sum(report.first_token_prediction_error.values()) == 100 - LEAST
    replica = pool.replicas[0]
    completion = pool.speed.predictions.completion(replica, 10.0, True)
    assert completion.low <= completion.median <= completion.high
    assert completion.median == pytest.approx(0.1, rel=0.05)
    first = pool.speed.predictions.first_token(replica, 10.0, pool.speed.mean_work)
    assert first is not None
    assert first.median == pytest.approx(0.02, rel=0.05)
    assert (replica.in_flight, replica.load, replica.work) == (0, 0, 0.0)


def test_a_sample_that_fails_or_does_not_stream_teaches_only_what_it_shows(make_pool) -> None:
    pool, now = make_pool(1), 1.0
    for number in range(3 * LEAST):
        attempt = pool.begin(10.0, now)
        assert isinstance(attempt, PredictedAttempt)
        attempt.settle(Outcome.SUCCESS if number % 3 else Outcome.CANCELLED, now + 0.1, at_once=True)
        now += EVERY_S
    report = pool.report(now)
    assert sum(report.prediction_error.values()) == LEAST
    assert not report.first_token_prediction_error
    assert pool.speed.predictions.first_token(pool.replicas[0], 10.0, pool.speed.mean_work) is None


def test_who_does_not_tell_its_length_has_an_interval_of_its_own(make_pool) -> None:
    pool, now, rng = make_pool(1), 1.0, Random(1)
    for number in range(400):
        told = number % 2 == 0
        attempt = pool.begin(100.0 if told else 0.0, now)
        seconds = 0.1 if told else 0.1 * rng.lognormvariate(0.0, 1.0)
        attempt.settle(Outcome.SUCCESS, now + seconds, at_once=True)
        now += EVERY_S
    replica, known = pool.replicas[0], pool.speed.predictions
    told, untold = (known.completion(replica, 100.0, told) for told in (True, False))
    assert log(told.high / told.low) < log(untold.high / untold.low) / 2


def test_predictions_of_simulated_language_models_are_as_good_as_they_say() -> None:
    told, first_token = predictions.measured("response", load=0.5, seed=1, seconds=90.0)
    unknown, _ = predictions.measured("none", load=0.5, seed=1, seconds=90.0)
    assert told.compared > 100
    assert told.median_error < 0.18
    assert 0.7 < unknown.within < 0.92
    assert 0.65 < first_token.within < 0.95
