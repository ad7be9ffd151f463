"""Accuracy of predictions, for pages and the API: how far they were off, over all workers. Pure."""

from collections.abc import Iterable, Sequence

from controlplane.telemetry.frames import PredictedLive, PredictionsLive
from routing.contract.sketch import Sketch
from routing.contract.telemetry import FleetCounters, SparseSketch


def predictions(told: Sequence[FleetCounters]) -> PredictionsLive | None:
    """Of one fleet since its workers began. ``None``: nothing was compared yet."""
    completion = _accuracy(
        (one.prediction_error for one in told), sum(one.predictions_within for one in told)
    )
    if completion is None:
        return None
    first_token = _accuracy(
        (one.first_token_prediction_error for one in told),
        sum(one.first_token_predictions_within for one in told),
    )
    return PredictionsLive(completion=completion, first_token=first_token)


def _accuracy(errors: Iterable[SparseSketch], within: int) -> PredictedLive | None:
    merged = Sketch()
    for each in errors:
        merged.add_counts(each)
    median = merged.quantile(0.5)
    if median is None:
        return None
    compared = merged.count
    return PredictedLive(
        compared=compared, error_percent=100.0 * median, within_percent=100.0 * within / compared
    )
