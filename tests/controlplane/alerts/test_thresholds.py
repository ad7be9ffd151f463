"""Thresholds of one's own: what may be written, and every metric has a unit."""

import pytest

from controlplane.alerts import thresholds
from controlplane.alerts.thresholds import METRICS, Threshold, quantity, unit_of
from controlplane.telemetry.measures import FIELDS as HISTORY
from tests.controlplane.alerts.pictures import fleet, picture, replica


@pytest.mark.parametrize(
    ("metric", "written", "value"),
    [
        ("p99_s", 0.8, 0.8),
        ("p99_s", "800 ms", 0.8),
        ("p99_s", "2s", 2.0),
        ("p99_s", "2", 2.0),
        ("error_percent", "5 %", 5.0),
        ("rps", "120 1/min", 2.0),
        ("errors_per_s", "3/s", 3.0),
        ("waiting", 20, 20.0),
    ],
)
def test_a_value_is_read_with_its_unit(metric: str, written: object, value: float) -> None:
    assert quantity(metric, written) == pytest.approx(value)


@pytest.mark.parametrize(
    "written", ["fast", "800 km", "", "-3 s", True, None, float("nan"), float("inf"), -1]
)
def test_what_is_no_such_value_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"unit|number|finite"):
        quantity("p99_s", written)


def test_all_metrics_of_the_history_can_be_watched() -> None:
    reasons = {metric for metric in METRICS if metric.startswith("error_reasons.")}
    assert reasons
    assert set(HISTORY) - {"error_reasons"} <= set(METRICS)
    assert {unit_of(metric) for metric in METRICS} == {"s", "%", "1/s", ""}


@pytest.mark.parametrize(
    ("metric", "comparison", "value", "found"),
    [
        ("rps", "above", 4.0, True),
        ("rps", "below", 4.0, False),
        ("error_percent", "above", 5.0, True),
        ("eligible_replicas", "below", 2.0, True),
        ("p99_s", "above", 0.0, False),
        ("error_reasons.timeout", "above", 0.0, False),
    ],
)
def test_a_metric_is_compared(
    metric: str, comparison: thresholds.Comparison, value: float, found: bool
) -> None:
    seen = picture(fleet(replica("a"), replica("b", "down"), error_percent=9.0))
    rule = thresholds.rule_of("own", Threshold(metric, comparison, value, value), "warning", 0, 0)
    assert bool(rule.find(seen, frozenset())) is found
    other = Threshold(metric, comparison, value, value, fleet="another")
    assert rule.find(seen, frozenset()) is not None
    assert thresholds.rule_of("own", other, "warning", 0, 0).find(seen, frozenset()) == []
