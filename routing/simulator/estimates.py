"""Work estimates: the proxy's estimate of a request's work, from the true work."""

from collections.abc import Callable
from random import Random
from typing import Literal

UNITS_PER_S = 1000.0
"""Work estimates are in units of a millisecond at speed 1."""

EstimateKind = Literal["exact", "noisy", "none"]
Estimate = Callable[[float, Random], float]
"""True work and a source of randomness → the estimate, 0 for none."""


def estimate(kind: EstimateKind, sigma: float = 1.0) -> Estimate:
    """``noisy``: times a lognormal number of this ``sigma`` whose median is 1."""
    if kind == "exact":
        return lambda work, rng: work
    if kind == "none":
        return lambda work, rng: 0.0
    return lambda work, rng: work * rng.lognormvariate(0.0, sigma)


NOISY = estimate("noisy")
