"""Service shape: how the seconds of a unit of work grow with the number of requests in flight at a replica.

Theory. A server with slots works on each of its requests as if it were alone: up to its slots, a unit of work
takes as long whatever else is there. A batching server shares its accelerator among all requests: the more
there are, the longer each takes. A concurrency limit says nothing about which of the two it is. So the
*growth* is learned: the factor by which a unit of work takes longer when there are twice as many requests.
1 is flat (slots), 2 is in proportion (a processor that is shared out).

It is the slope of a straight line through the logarithms of both, fitted within each replica and pooled over
the fleet (analysis of covariance), so that replicas of unequal speed do not look like growth. What is more
than the limit waits, and is left out. The slope's variance has two parts: the spread of the measurements, and
an error that does not become less with their number, because load and speed move together for other reasons
as well (a burst of long prompts, a slow hour). Both are large where the load hardly changes, and then the
prior decides: LLM servers batch, others have as many slots as their limit, unless the operator says which
(``serves`` of the policy).

Source: Gelman and Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models" (2007), for
pooled slopes and normal priors.

Failure mode: a fleet that is seen at one load only stays what it was taken for. That is right for LLM
servers and for generic ones with a limit of their own; an operator can say otherwise.
"""

from collections.abc import Iterable
from math import exp, exp2, inf, log, sqrt
from typing import Literal, NamedTuple

from routing.balancing.replica.state import Replica

FITTED_EVERY_S = 1.0
TAU_S = 120.0
"""Memory of the measurements."""
LEAST_SPREAD = 0.1
"""Variance of a measurement's logarithm at least."""
OTHER_CAUSES = 0.01
"""Variance of the slope, times that of the logarithm of load, which no number of measurements takes away."""
GROWTH_OF_SLOTS, GROWTH_OF_BATCHES = 1.06, 1.15
"""Up to the first a server is taken to have slots, from the second on to batch; between, in proportion."""


class Prior(NamedTuple):
    """What is believed of a fleet before it has been measured: a normal distribution of the slope."""

    slope: float
    precision: float


SLOTS = Prior(0.0, 40.0)
BATCH = Prior(0.6, 100.0)
"""Firmer: nearly all LLM servers batch, and a balanced fleet hardly shows it."""


_LLM_PROTOCOLS = frozenset({"openai", "anthropic"})
_LLM_PRESETS = frozenset({"vllm", "sglang", "tgi", "llama.cpp", "ollama"})


def prior_of(protocol: str, preset: str) -> Prior:
    """By the fleet's protocol and its probe's preset."""
    return BATCH if protocol in _LLM_PROTOCOLS or preset in _LLM_PRESETS else SLOTS


class ServiceShape:
    """Of one fleet in one worker."""

    __slots__ = (
        "_deviation",
        "_due",
        "_measured",
        "_sums",
        "growth",
        "own_growth",
        "prior",
        "said",
        "spread",
    )

    def __init__(self) -> None:
        self.prior = SLOTS
        self.said: Literal["auto", "slots", "batch"] = "auto"
        """What the operator says."""
        self.growth = 1.0
        """In use: 2 to the power of the slope."""
        self.own_growth = 1.0
        """As this worker has measured it."""
        self._deviation = inf
        """Standard error of the slope."""
        self._measured = 0.0
        self._due = 0.0
        self._sums = (0.0, 0.0, 0.0, 0.0)
        self.spread = 1.0
        """Standard deviation of the logarithm of what a unit of work takes."""

    def follow(self, said: Literal["auto", "slots", "batch"], prior: Prior) -> None:
        """What the policy and the protocol say."""
        if (said, prior) != (self.said, self.prior) or self._deviation == inf:
            self.said, self.prior = said, prior
            self.own_growth = self.growth = exp2(prior.slope)
            self._deviation = 1.0 / sqrt(prior.precision)

    @property
    def batching(self) -> float:
        """How far replicas are batching servers, 0 (slots) to 1."""
        if self.said != "auto":
            return float(self.said == "batch")
        over = (self.growth - GROWTH_OF_SLOTS) / (GROWTH_OF_BATCHES - GROWTH_OF_SLOTS)
        return min(max(over, 0.0), 1.0)

    @property
    def growth_error(self) -> float:
        """Factor within which the growth is known, one standard error, at least 1."""
        return exp2(self._deviation)

    @property
    def evidence(self) -> float:
        """Share of what is known that was measured, 0 to 1; the rest is the prior's."""
        return max(0.0, 1.0 - self.prior.precision * self._deviation**2)

    @property
    def measured(self) -> float:
        """How many measurements it rests on, each counting less as it ages."""
        return self._measured

    def learn(self, replica: Replica, seconds: float, units: float, now: float) -> None:
        """One response of so many units, by the number of requests that were there with it."""
        slots = replica.concurrency
        if seconds <= 0.0 or (slots is not None and replica.load >= slots):
            return
        known = replica.load_slope
        depth, pace = log(replica.load + 1), log(seconds / units)
        keep = exp((known.at - now) / TAU_S)
        known.at = now
        known.count = known.count * keep + 1.0
        known.depth = known.depth * keep + depth
        known.pace = known.pace * keep + pace
        known.depth_squared = known.depth_squared * keep + depth * depth
        known.depth_by_pace = known.depth_by_pace * keep + depth * pace
        known.pace_squared = known.pace_squared * keep + pace * pace

    # --- on the slow timer, in this order ---------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether the line is to be fitted now; then nothing is summed up yet."""
        if now < self._due:
            return False
        self._due = now + FITTED_EVERY_S
        self._sums = (0.0, 0.0, 0.0, 0.0)
        return True

    def look(self, replicas: Iterable[Replica], now: float) -> None:
        """Sum up what is known within each of these."""
        count, depths, together, paces = self._sums
        for replica in replicas:
            known = replica.load_slope
            if known.count > 1.0:
                keep = exp((known.at - now) / TAU_S)
                count += known.count * keep
                depths += (known.depth_squared - known.depth * known.depth / known.count) * keep
                together += (known.depth_by_pace - known.depth * known.pace / known.count) * keep
                paces += (known.pace_squared - known.pace * known.pace / known.count) * keep
        self._sums = count, depths, together, paces

    def compare(self) -> None:
        """All have been looked at: fit the line."""
        count, depths, together, paces = self._sums
        self._measured = count
        prior = self.prior
        slope, precision = prior.slope, prior.precision
        if count > 1.0 and depths > 0.0:
            found = together / depths
            spread = max(LEAST_SPREAD, (paces - found * together) / count)
            self.spread = sqrt(spread)
            certainty = depths / count / (spread / count + OTHER_CAUSES)
            precision = prior.precision + certainty
            slope = (prior.slope * prior.precision + found * certainty) / precision
        self.own_growth = self.growth = exp2(slope)
        self._deviation = 1.0 / sqrt(precision)
