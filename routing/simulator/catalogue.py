"""Catalogue of workloads by name, each with its default fleet."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from routing.simulator import azure_trace, mooncake_trace
from routing.simulator.faults import Fault, Slowdown
from routing.simulator.fleets import UNEQUAL, SimulatedFleet, fixed_slots
from routing.simulator.llm_workloads import CODE, Conversations, LlmWorkload, Replayed
from routing.simulator.prefix_cache import BLOCK_TOKENS
from routing.simulator.radiology import EAST, RADIOLOGY, clusters, one_in_the_east_slows_down
from routing.simulator.recorded import Recorded
from routing.simulator.scenarios import ACCELERATORS, FLASH_SALE, ON_BOARD, slow_from_the_sale_on, too_hot
from routing.simulator.shared_beginnings import SharedBeginnings
from routing.simulator.workloads import BIMODAL, EQUAL, EXPONENTIAL, LOGNORMAL, Workload


class ProxyKnowledge(NamedTuple):
    """What the proxies know of a fleet."""

    weights: bool = True
    limits: bool = True


class Entry(NamedTuple):
    """One workload as it can be asked for."""

    workload: Workload
    fleet: Callable[[ProxyKnowledge], SimulatedFleet]
    faults: Callable[[float], Sequence[Fault]]
    """Of the run's length: what goes wrong unless something else is asked for."""
    sites: Sequence[str] = ("",)
    """Where the proxies are, in turn."""


def _unequal(known: ProxyKnowledge) -> SimulatedFleet:
    return fixed_slots(UNEQUAL, weights=known.weights, limits=known.limits)


def one_slows_down(duration_s: float) -> Sequence[Fault]:
    """The last, one of the fastest, has a third of its speed in the middle third of the run."""
    last = f"r{len(UNEQUAL)}"
    return [Slowdown(replica=last, begin_s=duration_s / 3, end_s=duration_s * 2 / 3)]


def _accelerators(known: ProxyKnowledge) -> SimulatedFleet:
    return fixed_slots(ACCELERATORS, 1, weights=known.weights, limits=known.limits)


def _clusters(known: ProxyKnowledge) -> SimulatedFleet:
    return clusters(weights=known.weights, limits=known.limits)


CATALOGUE: dict[str, Entry] = {
    workload.name: Entry(workload, _unequal, one_slows_down)
    for workload in (BIMODAL, LOGNORMAL, EXPONENTIAL, EQUAL)
}
CATALOGUE[FLASH_SALE.name] = Entry(FLASH_SALE, _unequal, slow_from_the_sale_on)
CATALOGUE[ON_BOARD.name] = Entry(ON_BOARD, _accelerators, too_hot)
CATALOGUE[RADIOLOGY.name] = Entry(RADIOLOGY, _clusters, one_in_the_east_slows_down, (EAST,))

DRAWN: dict[str, LlmWorkload] = {one.name: one for one in (Conversations(), CODE, SharedBeginnings())}


class TraceFormat(NamedTuple):
    """A workload that is read from a file."""

    sentence: str
    read: Callable[[Path], list[Recorded]]
    block_tokens: int
    """Of the blocks by which it says how prompts begin, so that servers can keep them; 0: it
    does not say."""


TRACES = {
    "azure": TraceFormat("a trace file like Azure's of 2023 (CSV), replayed", azure_trace.read, 0),
    "mooncake": TraceFormat(
        "a trace file like Mooncake's (JSON lines), replayed", mooncake_trace.read, BLOCK_TOKENS
    ),
}


def replayed(name: str, path: Path) -> Replayed:
    """Raises BadTrace in words."""
    form = TRACES[name]
    return Replayed(
        name=name, sentence=form.sentence, recorded=form.read(path), block_tokens=form.block_tokens
    )
