"""The workloads by name, each with the fleet that it is simulated on unless another is given."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from routing.simulator.faults import Fault, Slowdown
from routing.simulator.fleets import UNEQUAL, Fleet, fixed_slots
from routing.simulator.workloads import BIMODAL, EQUAL, EXPONENTIAL, LOGNORMAL, Workload


class Told(NamedTuple):
    """What the proxies are told of a fleet."""

    weights: bool = True
    limits: bool = True


class Entry(NamedTuple):
    """One workload as it can be asked for."""

    workload: Workload
    fleet: Callable[[Told], Fleet]
    faults: Callable[[float], Sequence[Fault]]
    """Of the run's length: what goes wrong unless something else is asked for."""


def _unequal(told: Told) -> Fleet:
    return fixed_slots(UNEQUAL, weights=told.weights, limits=told.limits)


def one_slows_down(duration_s: float) -> Sequence[Fault]:
    """The last, one of the fastest, has a third of its speed in the middle third of the run."""
    last = f"r{len(UNEQUAL)}"
    return [Slowdown(replica=last, begin_s=duration_s / 3, end_s=duration_s * 2 / 3)]


CATALOGUE = {
    workload.name: Entry(workload, _unequal, one_slows_down)
    for workload in (BIMODAL, LOGNORMAL, EXPONENTIAL, EQUAL)
}
