"""Latency by load: seconds per unit of work of each replica, apart by how many requests it had in flight.

Theory. How long a response takes depends on the load, and a mean over all loads says neither what an idle
replica would take nor a full one. So responses are counted by level of load, each level twice as wide as the
one before it: 0, 1, 2–3, 4–7 … requests in flight when the response is complete. A stream whose tokens are
known counts as it passes, for loads change while it lasts. Each level is two sums, seconds and units of work,
which decay with age. Beside them stands a prior worth two requests: the replica's learned speed whatever its
load (:mod:`routing.balancing.learning.learned_speed`), which begins at its hardware weight. So a level that
was not used for long reads as the prior. Failures count at the level where they happen.

Source: Wydrowski et al., "Load is not what you should balance: Introducing Prequal" (NSDI 2024), §4:
latency is estimated from recent responses that had about as many requests in flight beside them.

Failure mode: a level is as old as its last use, a few τ at most; then it is the prior.
"""

from collections.abc import Sequence
from math import exp
from typing import ClassVar

from routing.balancing.learning import learned_speed
from routing.balancing.learning.latency_ewma import LatencyTracker
from routing.balancing.replica.learned_state import LOAD_LEVELS, UNKNOWN_BY_LOAD, SpeedByLoad
from routing.balancing.replica.state import Replica

RENEWED_EVERY_S = 0.25
SMOOTHING = 0.02
_LAST = LOAD_LEVELS - 1


class LatencyByLoad(LatencyTracker):
    """Keeps ``Replica.speed_by_load`` of one fleet in one worker."""

    __slots__ = ("_due", "_mean_work")
    passing: ClassVar[bool] = True

    def __init__(self, tau_s: float) -> None:
        super().__init__(tau_s)
        self._mean_work = 0.0
        self._due = 0.0

    def learn(self, replica: Replica, seconds: float, work: float, now: float) -> None:
        self._mean_work += SMOOTHING * (work - self._mean_work) if self._mean_work else work
        known, level = replica.speed_by_load, min(replica.load.bit_length(), _LAST)
        if known is UNKNOWN_BY_LOAD:
            replica.speed_by_load = known = SpeedByLoad()
        known.seconds[level] = seconds = known.seconds[level] + seconds
        known.units[level] = units = known.units[level] + work
        # At once: whoever fails at once would be asked hundreds of times before it is renewed.
        prior = learned_speed.PRIOR_REQUESTS * self._mean_work
        known.reading[level] = (seconds + prior * replica.seconds_per_work) / (units + prior) / replica.ramp

    def introduce(self, replica: Replica) -> None:
        replica.speed_by_load = known = SpeedByLoad()
        known.reading = [replica.seconds_per_work] * LOAD_LEVELS

    def is_due(self, mean_s: float, now: float) -> bool:
        if now < self._due:
            return False
        self._due = now + RENEWED_EVERY_S
        self._remember(mean_s)
        return True

    def renew(self, replicas: Sequence[Replica], now: float) -> None:
        prior_units = learned_speed.PRIOR_REQUESTS * (self._mean_work or 1.0)
        for replica in replicas:
            known = replica.speed_by_load
            if known is UNKNOWN_BY_LOAD:
                replica.speed_by_load = known = SpeedByLoad()
            keep = exp((known.at - now) / self.tau_s)
            known.at = now
            known.seconds = [seconds * keep for seconds in known.seconds]
            known.units = [units * keep for units in known.units]
            prior_seconds = prior_units * replica.seconds_per_work
            known.reading = [
                (seconds + prior_seconds) / (units + prior_units) / replica.ramp
                for seconds, units in zip(known.seconds, known.units, strict=True)
            ]
