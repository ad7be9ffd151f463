"""What is sent, and when: drawn once from a seed, and the same for every proxy."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

SPEEDS = (1,) * 6 + (2,) * 6 + (4,) * 4
SLOTS = 4
SHORT_S, LONG_S, LONG_SHARE = 0.060, 1.200, 0.1
LOGNORMAL_SIGMA = 1.2
"""A few long ones: the largest of 10,000 is a hundred times the middle one."""
TOKENS_IN_THE_MIDDLE, TOKENS_SIGMA, MOST_TOKENS = 40.0, 0.8, 400

FIXED_S, PER_REQUEST_S, BATCH = 0.030, 0.004, 16
"""Of an iteration of a batching server at speed 1: its seconds whatever it does, more for each request in it,
and how many there may be."""


@dataclass(frozen=True)
class Job:
    """One request of the trace."""

    at_s: float
    seconds: float
    """Of service at speed 1, where nothing else runs."""
    tokens: int
    """Of its answer, where it is streamed."""
    told: int
    """Its work as ``max_tokens`` says it: milliseconds at speed 1, or tokens, times the noise."""


def bimodal(rng: Random) -> float:
    return LONG_S if rng.random() < LONG_SHARE else SHORT_S


def lognormal(rng: Random) -> float:
    """As long as bimodal ones in the mean."""
    mean = LONG_SHARE * LONG_S + (1 - LONG_SHARE) * SHORT_S
    return mean * math.exp(rng.gauss(0, LOGNORMAL_SIGMA) - LOGNORMAL_SIGMA**2 / 2)


WORKLOADS: dict[str, Callable[[Random], float]] = {"bimodal": bimodal, "lognormal": lognormal}
MEAN_S = LONG_SHARE * LONG_S + (1 - LONG_SHARE) * SHORT_S


def in_slots(workload: str, load: float, seconds: float, seed: int, noise: float) -> list[Job]:
    """Poisson arrivals at this share of what all slots can do."""
    rate = load * sum(SPEEDS) * SLOTS / MEAN_S
    arrivals, sizes, noises = (Random(f"{seed} {what}") for what in ("arrivals", "sizes", "noise"))
    draw = WORKLOADS[workload]
    jobs = []
    for at in _arrivals(arrivals, rate, seconds):
        took = draw(sizes)
        told = took * 1000 * math.exp(noises.gauss(0, noise))
        jobs.append(Job(at, took, 0, max(1, round(told))))
    return jobs


def in_batches(load: float, seconds: float, seed: int, noise: float) -> list[Job]:
    """Streams of so many tokens, lognormal, at this share of what full batches can do."""
    full = BATCH / (FIXED_S + PER_REQUEST_S * BATCH) * sum(SPEEDS)
    rate = load * full / (TOKENS_IN_THE_MIDDLE * math.exp(TOKENS_SIGMA**2 / 2))
    arrivals, sizes, noises = (Random(f"{seed} {what}") for what in ("arrivals", "sizes", "noise"))
    jobs = []
    for at in _arrivals(arrivals, rate, seconds):
        drawn = TOKENS_IN_THE_MIDDLE * math.exp(sizes.gauss(0, TOKENS_SIGMA))
        tokens = max(1, min(MOST_TOKENS, round(drawn)))
        jobs.append(Job(at, 0.0, tokens, max(1, round(tokens * math.exp(noises.gauss(0, noise))))))
    return jobs


def _arrivals(rng: Random, rate: float, seconds: float) -> Iterator[float]:
    at = rng.expovariate(rate)
    while at < seconds:
        yield at
        at += rng.expovariate(rate)
