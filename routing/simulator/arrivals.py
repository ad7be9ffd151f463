"""Arrival process of requests: a renewal process whose mean rate may change over time.

Theory. Gaps between requests are drawn with mean 1 and a coefficient of variation ``cv``: exponential for 1
(Poisson, many independent clients), gamma with shape 1/cv² otherwise; above 1 requests come in bursts. That
is how measured traffic of model servers was fitted (BurstGPT, Wang et al., arXiv 2401.17644). The gaps are in
units of expected requests; a profile of the rate then says at which time so many are expected, which keeps
the bursts where the rate changes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf, sqrt
from random import Random

Profile = Sequence[tuple[float, float]]
"""``(time in s, factor of the mean rate)``, straight lines between them, constant after the last."""

STEADY: Profile = ((0.0, 1.0),)


def times(
    rng: Random, rate: float, until_s: float, cv: float = 1.0, profile: Profile = STEADY
) -> Iterator[float]:
    """Seconds at which requests arrive, ascending."""
    expected = 0.0
    shape = 1.0 / (cv * cv)
    if len(profile) == 1:
        per_s = rate * profile[0][1]
        while True:
            expected += rng.expovariate(1.0) if cv == 1.0 else rng.gammavariate(shape, 1.0 / shape)
            time_s = expected / per_s
            if time_s >= until_s:
                return
            yield time_s
    segments = _segments(profile, rate)
    begin, end, at_s, per_s, slope = next(segments)
    while True:
        expected += rng.expovariate(1.0) if cv == 1.0 else rng.gammavariate(shape, 1.0 / shape)
        while expected >= end:
            begin, end, at_s, per_s, slope = next(segments)
        left = expected - begin
        time_s = at_s + (2.0 * left / (per_s + sqrt(per_s * per_s + 2.0 * slope * left)))
        if time_s >= until_s:
            return
        yield time_s


def _segments(profile: Profile, rate: float) -> Iterator[tuple[float, float, float, float, float]]:
    """``(expected before it, expected by its end, its time, its rate, its slope)``, one after another."""
    expected = 0.0
    for (begin_s, factor), (end_s, next_factor) in pairwise(profile):
        length = end_s - begin_s
        more = rate * (factor + next_factor) / 2 * length
        yield expected, expected + more, begin_s, rate * factor, rate * (next_factor - factor) / length
        expected += more
    begin_s, factor = profile[-1]
    yield expected, inf, begin_s, rate * factor, 0.0
