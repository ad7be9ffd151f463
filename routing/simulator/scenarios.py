"""Scenarios (workloads with a fault): a flash sale, and cameras on board a vehicle.

*Flash sale.* Small and large requests are mixed, as those for a shop's recommendations are. After a third of
the run traffic grows tenfold within 5 s and stays there. At the same moment the last replica, one of the
fastest, falls to a third of its speed. ``load`` is the load at the peak, as a share of the whole fleet's
capacity. Clients wait for 1 s.

*On board.* The cameras of one vehicle send 30 frames a second each to a few small accelerators. An
accelerator works on one frame at a time. A frame that is not done after 33 ms is worthless, because the
next one has come. In the middle third of the run one accelerator is too hot and runs at a third of its
speed. ``load`` sets the number of cameras. The proxy has no estimate of a frame's work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from routing.simulator.arrivals import STEADY, Profile
from routing.simulator.faults import Fault, Slowdown
from routing.simulator.fleets import UNEQUAL, SimulatedFleet
from routing.simulator.requests import Request
from routing.simulator.streams import stream
from routing.simulator.workloads import BIMODAL, Traffic

SALE_SLO_S = 1.0
GROWS_S = 5.0

FRAME_S = 1 / 30
FRAME_SLO_S = 0.033
ACCELERATORS = (1.0, 1.0, 2.0, 2.0)
INFERENCE_S = 0.005
"""Of a frame at speed 1, on average."""


def sale_profile(duration_s: float) -> Profile:
    """A tenth of the peak, then the peak."""
    begins_s = duration_s / 3
    return ((0.0, 0.1), (begins_s, 0.1), (begins_s + GROWS_S, 1.0))


@dataclass(frozen=True, slots=True)
class FlashSale:
    """Bimodal requests, ten times as many from one moment on."""

    name: str = "flash_sale"
    sentence: str = "bimodal, ten times as many within 5 s; clients wait 1 s"

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        if traffic.profile is STEADY:
            traffic = replace(traffic, profile=sale_profile(traffic.duration_s))
        for request in BIMODAL.requests(traffic, fleet):
            request.deadline_s = SALE_SLO_S
            yield request


@dataclass(frozen=True, slots=True)
class OnBoard:
    """Frames of cameras, each in its own rhythm."""

    name: str = "on_board"
    sentence: str = "frames of cameras, 30 a second each and 5 ms at speed 1, of no use after 33 ms"

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        cameras = max(1, round(traffic.load * fleet.capacity * FRAME_S / INFERENCE_S))
        rng = stream(traffic.seed, "frames")
        begins = sorted(rng.random() * FRAME_S for _ in range(cameras))
        frame = 0
        while frame * FRAME_S < traffic.duration_s:
            for begin_s in begins:
                # What is found in a picture makes it up to half as long again, or as short.
                seconds = INFERENCE_S * rng.uniform(0.5, 1.5)
                yield Request(frame * FRAME_S + begin_s, seconds, deadline_s=FRAME_SLO_S)
            frame += 1


def slow_from_the_sale_on(duration_s: float) -> Sequence[Fault]:
    """The last replica, when the sale begins."""
    return [Slowdown(replica=f"r{len(UNEQUAL)}", begin_s=duration_s / 3, end_s=duration_s)]


def too_hot(duration_s: float) -> Sequence[Fault]:
    """The last accelerator, in the middle third."""
    last = f"r{len(ACCELERATORS)}"
    return [Slowdown(replica=last, begin_s=duration_s / 3, end_s=duration_s * 2 / 3)]


FLASH_SALE, ON_BOARD = FlashSale(), OnBoard()
