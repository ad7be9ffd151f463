"""Bursts of requests that last for seconds, as a profile of the rate.

Theory. A Markov-modulated Poisson process of two states (MMPP-2): the rate is ``factor`` times as high in a
burst as between bursts, and both last for exponentially distributed times. A renewal process whose gaps vary
(:mod:`routing.simulator.arrivals`) has bursts of a few requests, which is milliseconds at a high rate. Real
traffic has longer ones: in Azure's code completion trace of 2023 the busiest twentieth of the 10 s windows
has 5 times the mean rate, and some windows 13 times. The whole profile is scaled so that its mean is 1,
however the times were drawn.

Source: Fischer and Meier-Hellstern, "The Markov-modulated Poisson process (MMPP) cookbook", 1993.
"""

from itertools import pairwise
from random import Random
from typing import NamedTuple

from routing.simulator.arrivals import Profile

EDGE_S = 0.01
"""Within which the rate rises or falls; each state lasts at least twice as long."""


class Bursts(NamedTuple):
    """How strong, how long and how often."""

    factor: float = 5.0
    """The rate in a burst, over that between bursts."""
    length_s: float = 4.0
    """On average."""
    every_s: float = 20.0
    """From the begin of one to that of the next, on average; more than ``length_s``."""


def profile_of(bursts: Bursts, until_s: float, rng: Random) -> Profile:
    """The rate over time, 1 on average up to ``until_s`` seconds. It begins between two bursts."""
    points = [(0.0, 1.0)]
    time_s, factor = 0.0, 1.0
    while time_s < until_s:
        mean_s = bursts.length_s if factor > 1.0 else bursts.every_s - bursts.length_s
        time_s += max(2 * EDGE_S, rng.expovariate(1 / mean_s))
        points.append((time_s, factor))
        factor = 1.0 if factor > 1.0 else bursts.factor
        points.append((time_s + EDGE_S, factor))
    mean = _mean(points, until_s)
    return [(time_s, factor / mean) for time_s, factor in points]


def _mean(points: Profile, until_s: float) -> float:
    """Of straight lines between the points, up to then."""
    total = 0.0
    for (begin_s, factor), (end_s, next_factor) in pairwise(points):
        length_s = min(end_s, until_s) - begin_s
        if length_s > 0:
            slope = (next_factor - factor) / (end_s - begin_s)
            total += length_s * (factor + slope * length_s / 2)
    return total / until_s
