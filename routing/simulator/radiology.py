"""Radiology workload: a model reads each image within two seconds, or the radiologist goes on without it.

Two sites, each with a cluster of its own, 10 ms apart. All images come from the east, more of them than its
cluster can read, and one of its fast machines falls to a third of its speed in the middle third of the run;
the west has nothing to do. ``load`` is that of both clusters' capacity together, of which the east has half.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from routing.simulator.faults import Fault, Slowdown
from routing.simulator.fleets import Machine, SimulatedFleet, slotted
from routing.simulator.requests import Request
from routing.simulator.workloads import Sized, Traffic

READING_SLO_S = 2.0
EAST, WEST = "east", "west"
SPEEDS = (1.0, 1.0, 2.0, 2.0)
"""Of either site's machines."""
SLOTS = 4
IMAGE_S = 0.4
"""At speed 1: half as much to one and a half times as much."""
AWAY_S = 0.01


@dataclass(frozen=True, slots=True)
class Radiology:
    """Images of one site."""

    name: str = "radiology"
    sentence: str = "images, 0.2 to 0.6 s at speed 1, from one of two sites; nobody waits longer than 2 s"

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        images = Sized("images", "", IMAGE_S, lambda rng: IMAGE_S * rng.uniform(0.5, 1.5))
        for request in images.requests(traffic, fleet):
            request.site, request.deadline_s = EAST, READING_SLO_S
            yield request


def clusters(*, weights: bool = True, limits: bool = True) -> SimulatedFleet:
    """Replicas called east1, east2 … and west1, west2 …"""
    machine = partial(slotted, slots=SLOTS, weights=weights, limits=limits)
    machines: list[Machine] = [
        replace(machine(f"{site}{number}", speed), site=site)
        for site in (EAST, WEST)
        for number, speed in enumerate(SPEEDS, 1)
    ]
    return SimulatedFleet(machines=machines, sites_away_s={(EAST, WEST): AWAY_S, (WEST, EAST): AWAY_S})


def one_in_the_east_slows_down(duration_s: float) -> Sequence[Fault]:
    """The last of its machines, in the middle third."""
    slow = f"{EAST}{len(SPEEDS)}"
    return [Slowdown(replica=slow, begin_s=duration_s / 3, end_s=duration_s * 2 / 3)]


RADIOLOGY = Radiology()
