"""Prediction metrics: how far each fleet's predictions were off, on ``/metrics`` and ``/status``."""

from collections.abc import Iterable
from typing import Any

from routing.contract.sketch import quantile
from routing.contract.telemetry import FleetCounters, SparseSketch
from routing.master.admin.exposition import Exposition, LabelPairs


def prediction_metrics(out: Exposition, fleets: Iterable[FleetCounters]) -> None:
    """``fleets``: the workers' reports, added up. Predictions within their interval are counted by fleet."""
    named: list[tuple[LabelPairs, FleetCounters]] = [((("fleet", fleet.name),), fleet) for fleet in fleets]
    out.histogram(
        "switchyard_prediction_error_ratio",
        "Error of the predicted completion of sampled responses, relative to what it took.",
        [(labels, fleet.prediction_error) for labels, fleet in named],
    )
    out.histogram(
        "switchyard_first_token_prediction_error_ratio",
        "Error of the predicted first token of sampled streams, relative to what it took.",
        [(labels, fleet.first_token_prediction_error) for labels, fleet in named],
    )


def prediction_row(fleet: FleetCounters) -> dict[str, Any]:
    """How good one worker's predictions were, for ``/status``."""
    return {
        "predictions": _accuracy(fleet.prediction_error, fleet.predictions_within),
        "first_token_predictions": _accuracy(
            fleet.first_token_prediction_error, fleet.first_token_predictions_within
        ),
    }


def _accuracy(errors: SparseSketch, within: int) -> dict[str, Any]:
    compared, median = sum(errors.values()), quantile(errors, 0.5)
    return {
        "compared": compared,
        "median_error": None if median is None else round(median, 3),
        "within_interval": round(within / compared, 3) if compared else None,
    }
