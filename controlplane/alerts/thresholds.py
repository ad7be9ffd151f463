"""Thresholds of one's own: a metric of a fleet's history, above or below a value. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from controlplane.alerts.picture import Picture, SeenFleet
from controlplane.alerts.rule_types import AlertSubject, Breach, RuleInForce, Severity
from controlplane.telemetry.frames import Point
from routing.contract.ended_requests import ERROR_REASONS

Comparison = Literal["above", "below"]
BY_REASON = "error_reasons."
METRICS: tuple[str, ...] = (
    *(name for name in Point.__struct_fields__ if name not in ("at", "error_reasons")),
    "error_percent",
    "eligible_replicas",
    *(f"{BY_REASON}{reason}" for reason in ERROR_REASONS),
)
"""Those of ``/fleets/{fleet}/history``, and two that have none there yet."""

_SCALES: Mapping[str, Mapping[str, float]] = {
    "s": {"s": 1.0, "ms": 0.001, "min": 60.0},
    "%": {"%": 1.0},
    "1/s": {"1/s": 1.0, "/s": 1.0, "1/min": 1 / 60, "/min": 1 / 60},
    "": {"": 1.0},
}
"""Unit of a metric → units in which its threshold may be written, as factors."""
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([^0-9\s].*|1/(?:s|min))?")
_EXAMPLES = {"s": '"800 ms"', "%": '"5 %"', "1/s": '"20 1/s"', "": "20"}


@dataclass(frozen=True, slots=True)
class Threshold:
    metric: str
    comparison: Comparison
    value: float
    """In the metric's unit."""
    clear: float
    """The condition is gone only on the other side of this (hysteresis)."""
    fleet: str = ""
    """Empty: every fleet."""

    def holds(self, measured: float, *, is_open: bool) -> bool:
        """``is_open``: whether its alert is there already."""
        limit = self.clear if is_open else self.value
        return measured > limit if self.comparison == "above" else measured < limit


def unit_of(metric: str) -> str:
    """``s``, ``%``, ``1/s``; empty: a plain number."""
    if metric == "rps" or metric.endswith("_per_s") or metric.startswith(BY_REASON):
        return "1/s"
    if metric.endswith("_percent"):
        return "%"
    return "s" if metric.endswith("_s") else ""


def quantity(metric: str, written: object) -> float:
    """``0.8``, ``"800 ms"``, ``"5 %"`` → the number in the metric's unit. Raises ValueError with the cure."""
    unit = unit_of(metric)
    scales = _SCALES[unit]
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"must be a number{f' ({unit})' if unit else ''}, or text with a unit")
    if not isinstance(written, str):
        number, factor = float(written), 1.0
    else:
        read = _QUANTITY.fullmatch(written.strip())
        if read is None:
            raise ValueError(f'"{written[:40]}" is no number with a unit: write it as {_EXAMPLES[unit]}')
        if read[2] and read[2] not in scales:
            raise ValueError(f'"{read[2][:40]}" is no unit of {metric}: use {_listed(scales)}')
        number, factor = float(read[1]), scales[read[2]] if read[2] else 1.0
    if not 0 <= number * factor < 1e12:
        raise ValueError("must be a finite number from 0 to 1e12")
    return number * factor


def shown(value: float, unit: str) -> str:
    """With its unit, for people."""
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.4g} ms"
    return f"{value:.4g} {unit}".rstrip()


def rule_of(
    name: str, threshold: Threshold, severity: Severity, for_s: float, keep_s: float, title: str = ""
) -> RuleInForce:
    """The threshold as a rule among the others."""
    unit = unit_of(threshold.metric)
    limit = f"{threshold.metric} {threshold.comparison} {shown(threshold.value, unit)}"

    def find(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
        if picture.fleets is None:
            return None
        found = []
        for fleet in picture.fleets:
            subject = AlertSubject(fleet.name)
            measured = _measured(threshold.metric, fleet) if threshold.fleet in ("", fleet.name) else None
            # Without requests there is nothing to measure: what nobody waits for is not slow.
            if measured is not None and threshold.holds(measured, is_open=subject in firing):
                words = f"{threshold.metric} is {shown(measured, unit)} ({limit})"
                found.append(Breach(subject, words, measured))
        return found

    return RuleInForce(name, title or limit, severity, for_s, keep_s, find, unit, limit)


def _measured(metric: str, fleet: SeenFleet) -> float | None:
    if metric == "error_percent":
        return fleet.summary.error_percent
    if metric == "eligible_replicas":
        return float(sum(one.eligible for one in fleet.replicas))
    if metric.startswith(BY_REASON):
        return fleet.point.error_reasons.get(metric.removeprefix(BY_REASON), 0.0)
    value: float | None = getattr(fleet.point, metric)
    return value


def _listed(scales: Mapping[str, float]) -> str:
    return ", ".join(name for name in scales if name) or "a plain number"
