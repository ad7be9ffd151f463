"""Reports of what predictions were off by → what the fleet's page and the API say of them."""

import pytest

from routing.contract.telemetry import FleetCounters
from tests.controlplane.telemetry.reports import fleet, sketch_of
from tests.controlplane.telemetry.test_learned_service import frame


def compared(errors: list[float], within: int) -> FleetCounters:
    return fleet(prediction_error=sketch_of(errors), predictions_within=within)


def test_errors_of_all_workers_are_joined() -> None:
    said = frame(compared([0.1] * 30, 27), compared([0.4] * 10, 5)).predictions
    assert said is not None
    assert said.first_token is None
    assert said.completion.compared == 40
    # The median of all, not the mean of two medians.
    assert said.completion.error_percent == pytest.approx(10.0, rel=0.02)
    assert said.completion.within_percent == pytest.approx(80.0)


def test_first_tokens_are_said_apart() -> None:
    worker = fleet(
        prediction_error=sketch_of([0.1]),
        predictions_within=1,
        first_token_prediction_error=sketch_of([0.5, 0.5]),
        first_token_predictions_within=1,
    )
    said = frame(worker).predictions
    assert said is not None
    assert said.first_token is not None
    assert said.first_token.compared == 2
    assert said.first_token.error_percent == pytest.approx(50.0, rel=0.02)
    assert said.first_token.within_percent == pytest.approx(50.0)


def test_while_nothing_was_compared_nothing_is_said() -> None:
    assert frame().predictions is None
    assert frame(fleet()).predictions is None
