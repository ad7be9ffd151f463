"""Learned speed (a time-decayed moving average): seconds per unit of work, from what requests took.

Theory. The estimate is a ratio of two sums, seconds over units of work, each decayed as ``e^(−Δt/τ)``: a
time-decayed moving average in which every request counts by its work. Beside this evidence stands a prior,
worth a few requests: the pool's median speed, scaled by the replica's hardware weight. A new replica begins
at the prior. As the evidence of an idle replica decays, its estimate drifts back to the prior, so that it is
tried again. Sums of several workers are simply added.

Source: time-decayed averages as in Finagle's and Linkerd's EWMA; τ is the larger of 5 s and three
mean response times, so that slow fleets do not forget between two responses.
"""

from collections.abc import Iterable
from math import exp

from routing.balancing.replica.learned_state import LearnedSpeed
from routing.balancing.replica.state import Replica

SHORTEST_TAU_S = 5.0
TAU_IN_ANSWERS = 3.0
LEAST_PACE = 1e-12
"""Seconds per unit of work at least, where logarithms are taken of them."""
PRIOR_REQUESTS = 2.0
"""What the prior weighs, in requests of mean size."""


def tau_s(mean_answer_s: float) -> float:
    """Memory of the estimate in seconds."""
    return max(SHORTEST_TAU_S, TAU_IN_ANSWERS * mean_answer_s)


def learn(speed: LearnedSpeed, seconds: float, units: float, now: float, tau: float) -> float:
    """Fold one response in; returns the estimate in seconds per unit of work."""
    keep = exp((speed.at - now) / tau)
    speed.at = now
    speed.seconds = seconds = speed.seconds * keep + seconds
    speed.units = units = speed.units * keep + units
    return (seconds + speed.prior_seconds) / (units + speed.prior_units)


def estimate(speed: LearnedSpeed, now: float, tau: float) -> float:
    """The estimate at ``now`` without writing."""
    keep = exp((speed.at - now) / tau)
    return (speed.seconds * keep + speed.prior_seconds) / (speed.units * keep + speed.prior_units)


def units_at(speed: LearnedSpeed, now: float, tau: float) -> float:
    """How many units of work the evidence is worth at ``now``, the peers' included."""
    return speed.units * exp((speed.at - now) / tau) + speed.peer_units


def forget(speed: LearnedSpeed) -> None:
    """Drop the evidence, keep the prior: for a replica that returns from ejection."""
    speed.seconds = speed.units = 0.0


def rescale(speed: LearnedSpeed, old_weight: float, new_weight: float) -> None:
    """An operator changed the hardware weight: take his word until new responses say otherwise."""
    if old_weight > 0 and new_weight > 0:
        speed.seconds *= old_weight / new_weight


def evidence_at_weight_1(
    replicas: Iterable[Replica], now: float, tau: float, least_units: float
) -> list[tuple[float, float]]:
    """Seconds per unit of work *at weight 1* of those of the replicas of which there is evidence, and of how
    many units it is.

    ``least_units``: how many decayed units count as evidence.
    """
    found = []
    for replica in replicas:
        speed = replica.speed
        if not speed.units and speed.peer_units <= least_units:
            continue  # without the exponential: many of a large fleet
        keep = exp((speed.at - now) / tau)
        units = speed.units * keep + speed.peer_units
        if units > least_units and replica.spec.weight > 0:
            pace = (speed.seconds * keep + speed.peer_seconds) / units
            found.append((pace * replica.spec.weight, units))
    return found


def median_of(found: list[float]) -> float | None:
    """The pool's median of those; ``None``: there is no evidence."""
    if not found:
        return None
    found.sort()
    middle = len(found) // 2
    return found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2
