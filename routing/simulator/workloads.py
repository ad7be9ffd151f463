"""Workloads: the requests, when they arrive, their size, and the proxy's estimate of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random
from typing import Protocol

from routing.simulator.arrivals import STEADY, Profile, times
from routing.simulator.estimates import NOISY, UNITS_PER_S, Estimate
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.requests import Request
from routing.simulator.streams import stream


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """How much of a workload arrives, and how."""

    load: float = 0.85
    """Share of the fleet's capacity, on average."""
    duration_s: float = 60.0
    seed: int = 1
    cv: float = 1.0
    """Of the gaps between requests; 1: Poisson, more: bursts."""
    profile: Profile = STEADY
    estimate: Estimate = NOISY


class Workload(Protocol):
    """A kind of request."""

    @property
    def name(self) -> str: ...

    @property
    def sentence(self) -> str:
        """For people who choose."""

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        """In the order of arrival; of the same arguments the same, and new objects each time."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Requests that differ only in how long they take, each independent of the others."""

    name: str
    sentence: str
    mean_s: float
    """At speed 1."""
    draw: Callable[[Random], float]
    """Seconds at speed 1."""

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        rate = traffic.load * fleet.capacity / self.mean_s
        seed, draw, estimate = traffic.seed, self.draw, traffic.estimate
        sizes, noise = stream(seed, "sizes"), stream(seed, "noise")
        arrivals = stream(seed, "arrivals")
        for at_s in times(arrivals, rate, traffic.duration_s, traffic.cv, traffic.profile):
            seconds = draw(sizes)
            yield Request(at_s, seconds, estimate=estimate(seconds * UNITS_PER_S, noise))


SHORT_S, LONG_S, LONG_SHARE = 0.020, 0.400, 0.10
MEAN_S = SHORT_S * (1 - LONG_SHARE) + LONG_S * LONG_SHARE
_CV2 = (SHORT_S**2 * (1 - LONG_SHARE) + LONG_S**2 * LONG_SHARE) / MEAN_S**2 - 1
_SIGMA = sqrt(log(1 + _CV2))
_MU = log(MEAN_S) - _SIGMA**2 / 2


def _bimodal(rng: Random) -> float:
    return LONG_S if rng.random() < LONG_SHARE else SHORT_S


def _lognormal(rng: Random) -> float:
    return exp(rng.gauss(_MU, _SIGMA))


def _exponential(rng: Random) -> float:
    return rng.expovariate(1 / MEAN_S)


def _equal(rng: Random) -> float:
    return MEAN_S


BIMODAL = Sized("bimodal", "90 % of requests take 20 ms and 10 % take 400 ms at speed 1", MEAN_S, _bimodal)
LOGNORMAL = Sized("lognormal", "mean and variance of bimodal, every size between", MEAN_S, _lognormal)
EXPONENTIAL = Sized("exponential", "exponential sizes of the same mean, 58 ms", MEAN_S, _exponential)
EQUAL = Sized("equal", "every request takes 58 ms at speed 1", MEAN_S, _equal)
