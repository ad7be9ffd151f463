"""Learned service: how fast a replica is, and how its fleet serves under load, as workers have learned it.

Workers of one host share their evidence, those of several hosts do not. So a worker tells what it goes by,
and how much of the evidence is its own. Over several workers, logarithms are averaged by that. The variance
is that of a mixture: the mean of theirs, and what their values differ. Evidence that two workers share is
then not taken for twice as much.
"""

from collections.abc import Iterable, Sequence
from math import exp, log, sqrt

import msgspec

from routing.contract.telemetry import FleetCounters, LearnedScale

EVIDENCE_REQUESTS = 0.5
"""So much decayed evidence counts as knowing a replica, in requests of mean size."""
MOSTLY = 0.5
"""Share of evidence from which on a fleet's shape is learned rather than assumed."""
_LEAST = 1e-12
"""Where logarithms are taken."""


class LearnedShape(msgspec.Struct, frozen=True, kw_only=True):
    """How a fleet's replicas serve under load."""

    growth: float
    """Factor by which a unit of work takes longer where twice as many requests are in flight."""
    growth_error: float
    """Its standard error, as a factor of at least 1."""
    batching: float
    """How far replicas are taken for batching servers: 0 (they have slots) to 1."""
    evidence: float
    """Share of it that was measured, 0 to 1; the rest is assumed from the protocol and the probe's preset."""

    @property
    def kind(self) -> str:
        """``slots``, ``batches`` or ``between``."""
        if 0.0 < self.batching < 1.0:
            return "between"
        return "batches" if self.batching else "slots"


def combined_scale(scales: Sequence[LearnedScale]) -> LearnedScale | None:
    """Of one replica over several workers; ``None``: nobody has learned anything."""
    if not scales:
        return None
    weights = _weights(scale.requests for scale in scales)
    times, error = _mixture(weights, [(scale.times_usual, scale.error) for scale in scales])
    request_s, _ = _mixture(weights, [(scale.request_s, 1.0) for scale in scales])
    return LearnedScale(
        times_usual=times,
        error=error,
        request_s=request_s,
        requests=sum(scale.requests for scale in scales),
    )


def combined_shape(fleets: Iterable[FleetCounters]) -> LearnedShape | None:
    """Of one fleet, over the reports of several workers; ``None``: none of them tells."""
    told = [fleet for fleet in fleets if fleet.growth > 0.0]
    if not told:
        return None
    weights = _weights(fleet.growth_measured for fleet in told)
    growth, error = _mixture(weights, [(fleet.growth, fleet.growth_error) for fleet in told])
    return LearnedShape(
        growth=growth,
        growth_error=error,
        batching=sum(weight * one.batching for weight, one in zip(weights, told, strict=True)),
        evidence=sum(weight * one.growth_evidence for weight, one in zip(weights, told, strict=True)),
    )


def _weights(evidence: Iterable[float]) -> list[float]:
    """Their shares of all evidence; equal ones where there is none."""
    found = list(evidence)
    total = sum(found)
    return [one / total for one in found] if total > 0.0 else [1.0 / len(found)] * len(found)


def _mixture(weights: Sequence[float], values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean and standard deviation of (value, its error as a factor), both as factors."""
    logs = [log(max(value, _LEAST)) for value, _ in values]
    mean = sum(weight * one for weight, one in zip(weights, logs, strict=True))
    variance = sum(
        weight * (log(max(error, 1.0)) ** 2 + (one - mean) ** 2)
        for weight, one, (_, error) in zip(weights, logs, values, strict=True)
    )
    return exp(mean), exp(sqrt(variance))
