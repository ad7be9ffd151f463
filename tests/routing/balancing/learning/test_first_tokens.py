"""When a stream is late: the limit that is learned from a fleet's first tokens."""

from random import Random

import pytest

from routing.balancing.learning import first_tokens
from routing.balancing.learning.first_tokens import FirstTokens
from routing.balancing.learning.predictions import Predictions


def learned(seconds: list[float]) -> FirstTokens:
    found = FirstTokens()
    for one in seconds:
        found.learn(one, 1.0)
    return found


def test_nothing_is_late_while_few_are_known():
    known = learned([0.2] * (first_tokens.LEAST - 1))
    assert known.limit_s(1.0) is None
    known.learn(0.2, 1.0)
    assert known.limit_s(1.0) == pytest.approx(0.2 * first_tokens.LEAST_TIMES)


def test_it_is_the_99th_percentile_of_the_last():
    rng = Random(1)
    seconds = [rng.lognormvariate(-1.0, 1.0) for _ in range(400)]
    known = learned([100.0] * 50 + [0.3] * 100 + seconds)
    assert known.limit_s(1.0) == sorted([0.3] * 100 + seconds)[495]


def test_hardly_any_spread_makes_no_short_limit():
    assert learned([0.2] * 300).limit_s(1.0) == pytest.approx(0.6)
    assert learned([1e-4] * 300).limit_s(1.0) == first_tokens.SHORTEST_S


def test_what_is_cut_off_at_the_limit_does_not_lower_it_for_ever():
    """One in fifty takes long. It is given up at the limit, and counts as what it was given."""
    rng, known = Random(1), learned([0.2] * 20)
    limits = []
    for _ in range(5000):
        limit_s = known.limit_s(1.0)
        assert limit_s is not None
        seconds = 3.0 if rng.random() < 0.02 else rng.uniform(0.1, 0.5)
        known.learn(min(seconds, limit_s), 1.0)
        limits.append(limit_s)
    assert min(limits[1000:]) > 0.6


def test_large_requests_have_longer_limits():
    known = FirstTokens()
    for size in (1.0, 2.0, 4.0) * 20:
        known.learn(0.2 * size, size)
    assert known.limit_s(4.0) == pytest.approx(4 * 0.6)


def test_how_first_tokens_grow_with_size_is_learned(make_pool):
    predictions, rng = Predictions(), Random(1)
    (replica,) = make_pool(1).replicas
    assert predictions.size_factor(8.0, 1.0) == 1.0
    for number in range(200):
        work = rng.choice([0.25, 1.0, 4.0])
        sample = predictions.sample(replica, work, True, 1.0, float(number))
        predictions.learn(sample, 10.0, 0.1 * work)
    assert predictions.size_factor(4.0, 1.0) == pytest.approx(4.0, rel=0.1)
    assert predictions.size_factor(0.25, 1.0) == pytest.approx(0.25, rel=0.1)
