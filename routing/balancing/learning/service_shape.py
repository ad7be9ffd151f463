"""Service shape: how the seconds of a unit of work grow with the number of requests in flight at a replica.

Theory. A server with slots works on each of its requests as if it were alone: up to its slots, a unit of work
takes as long whatever else is there. A batching server shares its accelerator among all requests: the more
there are, the longer each takes. A concurrency limit says nothing about which of the two it is. So the
*growth* is learned: the factor by which a unit of work takes longer when there are twice as many requests.
1 is flat (slots), 2 is in proportion (a processor that is shared out).

It is the slope of a straight line through the logarithms of both, fitted within each replica and pooled over
the fleet (analysis of covariance), so that replicas of unequal speed do not look like growth. What is more
than the limit waits, and is left out, and small requests count less: much of what they take is no work. The
slope's variance has two parts: the spread of the measurements, and an error that does not become less with
their number, because load and speed move together for other reasons as well (a burst of long prompts, a slow
hour). How large such causes can be is seen in the spread: where load and work explain nearly all of what a
response takes, there are none. Both parts are large where the load hardly changes, and then the prior
decides: LLM servers batch, others have as many slots as their limit, unless the operator says which
(``serves`` of the policy).

A batching server hardly slows down while few requests are there: reading its weights takes most of a step.
So what was seen holds up to twice the loads that were seen. From there to the limit load slows requests as
much as that, or as the prior says if that is more.

The prior is a mixture: the kind that the fleet is taken for, and with a smaller share the other kind. A
single normal would have to be wide, and be led astray by chance, or narrow, and never learn that it is wrong.

Source: Gelman and Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models" (2007), for
pooled slopes and normal priors; Gelman et al., "Bayesian Data Analysis" (2013), ch. 22, for mixtures.

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
LEAST_SPREAD = 0.01
"""Variance of a measurement's logarithm at least, for how surely the slope is known."""
NOISE, NOISE_KNOWN_OF = 0.1, 4.0
"""Until it is measured: that variance as if of so many measurements. Few that agree by chance are no proof.
It is also the least for how surely speeds are known."""
OTHER_CAUSES = 0.1
"""Share of the measurements' variance that other causes, which come and go with load, may be of. It is
variance of the slope, times that of the logarithm of load, which no number of measurements takes away."""
MOST_OTHER_CAUSES = 0.01
SEEN_DEVIATIONS = 2.0
"""Standard deviations above the mean of the logarithm of load: the highest loads that were seen."""
HOLDS_UP_TO = 2.0
"""Times these loads."""
OTHER_KIND = 0.2
"""Probability of the kind that a fleet is not taken for, before it has been measured."""
GROWTH_OF_SLOTS, GROWTH_OF_BATCHES = 1.06, 1.15
"""Up to the first a server is taken to have slots, from the second on to batch; between, in proportion."""


_NOTHING = (0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0)
"""Sums of no measurements."""


class ServiceKind(NamedTuple):
    """What is believed of servers of one kind: a normal distribution of the slope."""

    slope: float
    precision: float

    def after(self, found: float, variance: float) -> tuple[float, float, float]:
        """Once a slope was found with this variance: how likely that was, the slope's mean, its variance."""
        apart = variance + 1.0 / self.precision
        likelihood = exp(-0.5 * (found - self.slope) ** 2 / apart) / sqrt(apart)
        left = 1.0 / (self.precision + 1.0 / variance)
        return likelihood, left * (self.slope * self.precision + found / variance), left


class Prior(NamedTuple):
    """What is believed of a fleet before it has been measured: that it is of one kind, and less likely of the
    other."""

    kind: ServiceKind
    other: ServiceKind

    @property
    def slope(self) -> float:
        """Its mean, of the likelier kind."""
        return self.kind.slope

    @property
    def variance(self) -> float:
        """Of both kinds together."""
        between = OTHER_KIND * (1.0 - OTHER_KIND) * (self.other.slope - self.kind.slope) ** 2
        return (1.0 - OTHER_KIND) / self.kind.precision + OTHER_KIND / self.other.precision + between

    def after(self, found: float, variance: float) -> tuple[float, float]:
        """Mean and variance of the slope, once one was found with this variance."""
        first, first_slope, first_left = self.kind.after(found, variance)
        second, second_slope, second_left = self.other.after(found, variance)
        share = OTHER_KIND * second
        share /= share + (1.0 - OTHER_KIND) * first or 1.0
        slope = first_slope + share * (second_slope - first_slope)
        between = share * (1.0 - share) * (second_slope - first_slope) ** 2
        return slope, first_left + share * (second_left - first_left) + between


_SLOTS, _BATCH = ServiceKind(0.0, 40.0), ServiceKind(0.6, 100.0)
SLOTS = Prior(_SLOTS, _BATCH)
BATCH = Prior(_BATCH, _SLOTS)
"""The kind itself is firmer: a balanced fleet of LLM servers hardly shows that it batches."""


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
        "_seen",
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
        self._sums = _NOTHING
        self._seen = 0.0
        """Share of the loads up to the limit of which measurements tell."""
        self.spread = 1.0
        """Standard deviation of the logarithm of what a unit of work takes."""

    def follow(self, said: Literal["auto", "slots", "batch"], prior: Prior) -> None:
        """What the policy and the protocol say."""
        if (said, prior) != (self.said, self.prior) or self._deviation == inf:
            self.said, self.prior = said, prior
            self.own_growth = self.growth = exp2(prior.slope)
            self._deviation = sqrt(prior.variance)

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
        return self._seen * max(0.0, 1.0 - self._deviation**2 / self.prior.variance)

    @property
    def measured(self) -> float:
        """How many measurements it rests on, each counting less as it ages."""
        return self._measured

    def learn(self, replica: Replica, seconds: float, units: float, usual: float, now: float) -> None:
        """One response of so many units, usually ``usual``, by the number of requests that were there."""
        slots = replica.concurrency
        if seconds <= 0.0 or (slots is not None and replica.load >= slots):
            return
        known = replica.load_slope
        depth, pace = log(replica.load + 1), log(seconds / units)
        keep, counts = exp((known.at - now) / TAU_S), units / usual if units < usual else 1.0
        known.at = now
        known.count = known.count * keep + counts
        known.depth = known.depth * keep + counts * depth
        known.pace = known.pace * keep + counts * pace
        known.depth_squared = known.depth_squared * keep + counts * depth * depth
        known.depth_by_pace = known.depth_by_pace * keep + counts * depth * pace
        known.pace_squared = known.pace_squared * keep + counts * pace * pace

    # --- on the slow timer, in this order ---------------------------------------------------------

    def is_due(self, now: float) -> bool:
        """Whether the line is to be fitted now; then nothing is summed up yet."""
        if now < self._due:
            return False
        self._due = now + FITTED_EVERY_S
        self._sums = _NOTHING
        return True

    def look(self, replicas: Iterable[Replica], now: float) -> None:
        """Sum up what is known within each of these."""
        count, depths, together, paces, means, depth, depth_squared, limit = self._sums
        for replica in replicas:
            known = replica.load_slope
            if known.count > 1.0:
                keep = exp((known.at - now) / TAU_S)
                count += known.count * keep
                depths += (known.depth_squared - known.depth * known.depth / known.count) * keep
                together += (known.depth_by_pace - known.depth * known.pace / known.count) * keep
                paces += (known.pace_squared - known.pace * known.pace / known.count) * keep
                means += 1
                depth += known.depth * keep
                depth_squared += known.depth_squared * keep
                limit += log(replica.concurrency or 1) * known.count * keep
        self._sums = count, depths, together, paces, means, depth, depth_squared, limit

    def compare(self) -> None:
        """All have been looked at: fit the line."""
        count, depths, together, paces, means, depth, depth_squared, limit = self._sums
        self._measured = count
        if count <= 1.0 or depths <= 0.0:
            self.own_growth = self.growth = exp2(self.prior.slope)
            self._deviation, self._seen = sqrt(self.prior.variance), 0.0
            return
        found = together / depths
        # Each replica's mean, and the slope, were fitted too.
        freedom = NOISE_KNOWN_OF + max(0.0, count - means - 1)
        spread = max(LEAST_SPREAD, (NOISE * NOISE_KNOWN_OF + paces - found * together) / freedom)
        self.spread = sqrt(max(NOISE, spread))
        other_causes = min(OTHER_CAUSES * spread, MOST_OTHER_CAUSES)
        self._seen = seen = _share_seen(depth / count, depth_squared / count, limit / count)
        found += (1.0 - seen) * max(0.0, self.prior.slope - found)
        slope, variance = self.prior.after(found, (spread / count + other_causes) / (depths / count))
        self.own_growth = self.growth = exp2(slope)
        self._deviation = sqrt(variance)


def _share_seen(depth: float, depth_squared: float, limit: float) -> float:
    """Share of the loads up to the limit of which it is known how they slow requests. All are logarithms:
    the means of what was measured, and the limit."""
    highest = depth + SEEN_DEVIATIONS * sqrt(max(0.0, depth_squared - depth * depth))
    known = highest + log(HOLDS_UP_TO)
    return known / limit if known < limit else 1.0
