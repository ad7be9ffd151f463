"""Learned scale: how many times what is usual in its fleet a replica takes, and how surely (empirical Bayes).

Theory. The value is the one that :class:`routing.balancing.learning.fleet_speed.FleetSpeed` lets strategies
go by. Its error is of two variances together: that of the measurement, which is noise over the units of work
that were seen, and that of a normal prior, which is how much replicas differ. The second is an estimate
itself. Here it is taken one standard error larger, for of a few replicas it may be nothing by chance.

Source: Efron and Morris, "Data Analysis Using Stein's Estimator and Its Generalizations" (1975).
"""

from math import exp, sqrt

from routing.balancing.learning.fleet_speed import LEAST_VARIANCE, SURELY_EQUAL, FleetSpeed
from routing.balancing.learning.learned_speed import LEAST_PACE
from routing.balancing.replica.state import Replica
from routing.contract.telemetry import LearnedScale


def scale_of(fleet: FleetSpeed, replica: Replica, now: float) -> LearnedScale | None:
    """For the report, as of the last refresh; ``None``: nothing has been learned of it yet."""
    speed, base = replica.speed, fleet.base
    if base is None or not (speed.units or speed.peer_units):
        return None
    usual = max(base / (replica.spec.weight or 1.0), LEAST_PACE)
    own = speed.units * exp(min(0.0, speed.at - now) / fleet.tau) if speed.units else 0.0
    variance = LEAST_VARIANCE + fleet.noise / (own + speed.prior_units)
    times = max(replica.seconds_per_work, LEAST_PACE) / usual
    lowest, highest = SURELY_EQUAL
    times = 1.0 if lowest < times < highest else times ** (fleet.differences / (fleet.differences + variance))
    mean_work = fleet.mean_work
    return LearnedScale(
        times_usual=times,
        error=exp(sqrt(1.0 / (1.0 / variance + 1.0 / (fleet.most_differences + LEAST_VARIANCE)))),
        request_s=times * usual * mean_work,
        requests=own / mean_work if mean_work > 0.0 else 0.0,
    )
