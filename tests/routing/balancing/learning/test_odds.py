"""How likely a request is in time, and how far such chances are believed."""

from math import inf

import pytest

from routing.balancing.learning.odds import Odds
from routing.balancing.learning.predictions import Predictions, Sample
from routing.balancing.learning.residuals import LEAST, Residuals
from routing.balancing.replica.state import Replica
from tests.routing.balancing.conftest import spec_of

DUE_S = 2.0


def errors(*values: float) -> Residuals:
    kept = Residuals()
    for value in values:
        kept.learn(value)
    return kept


def due(completion: Residuals) -> Odds:
    return Odds(1.0, 1.0, DUE_S, completion, inf, None, 0.0, 0.0)


def test_the_chance_is_the_share_of_errors_that_leave_time() -> None:
    replica, odds = Replica(spec_of(0)), due(errors(-0.2, -0.1, 0.0, 0.1))
    # Of what is expected to take 1 s, errors up to the logarithm of 2 are in time.
    assert odds.at(replica) == 1.0
    replica.cost = 1.9
    assert odds.at(replica) == 0.75
    replica.cost = 20.0
    assert odds.at(replica) == 0.0
    assert odds.sensitivity(replica) == 0.0
    replica.cost = DUE_S
    assert odds.sensitivity(replica) > 1.0


def test_the_first_token_takes_longer_where_more_requests_are() -> None:
    replica, first = Replica(spec_of(0)), errors(*[0.0] * LEAST)
    odds = Odds(1.0, 1.0, inf, None, 0.5, first, -2.0, 1.0)
    assert odds.at(replica) == 1.0
    replica.load = 10
    assert odds.at(replica) == 0.0


def trust_after(took: dict[float, float]) -> float:
    """Requests that are due in 2 s: chance → what they took."""
    predictions = Predictions()
    odds = due(errors(0.0))
    for _ in range(100):
        for chance, seconds in took.items():
            sample = Sample(True, 1.0, None, 1.0, (1.0, 0.0, 0.0), None, odds, chance)
            if seconds > DUE_S:
                predictions.learn_cut_off(sample, DUE_S)
            else:
                predictions.learn(sample, seconds, 0.0)
    found = predictions.odds(1.0, True, 1.0, DUE_S, inf)
    assert found is not None
    return found.trust


def test_chances_that_come_true_are_believed_and_others_are_not() -> None:
    """Where a deadline says itself how large a request is, what looks late by its estimate is not."""
    assert trust_after({0.9: 1.0, 0.1: 3.0}) > 0.95
    assert trust_after({0.9: 1.0, 0.1: 1.0}) < 0.4
    assert trust_after({0.9: 3.0, 0.1: 1.0}) == 0.0


def test_what_was_cut_off_counts_as_one_that_took_longer() -> None:
    kept = errors(*[number / 100 for number in range(100)])
    before = kept.share_within(0.5)
    for _ in range(100):
        kept.learn_at_least(0.5)
    assert kept.share_within(0.5) == pytest.approx(before / 2, abs=0.02)
    # They are spread as those are that were larger.
    assert kept.share_within(0.75) == pytest.approx(0.5 * 0.76 + 0.25, abs=0.03)


def test_nothing_is_said_while_too_little_is_known_or_no_time_is_left() -> None:
    predictions = Predictions()
    assert predictions.odds(1.0, True, 1.0, DUE_S, inf) is None
    for _ in range(LEAST):
        predictions.learn(Sample(True, 1.0, None, 1.0, (1.0, 0.0, 0.0), None, None, 0.0), 1.0, 0.0)
    assert predictions.odds(1.0, True, 1.0, DUE_S, inf) is not None
    assert predictions.odds(1.0, True, 1.0, -1.0, inf) is None
    assert predictions.odds(1.0, True, 1.0, inf, 1.0) is None
