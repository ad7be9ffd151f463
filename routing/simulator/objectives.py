"""Objectives (deadlines, time to first token): which requests are due when, and how many were in time.

A deadline is that of a client, which leaves when it has passed: its request counts as ``late`` and ends at
its server. An objective for first tokens is the fleet's (``slo.first_token_s`` of its policy): a stream that
begins later goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import NamedTuple

from routing.simulator.fleets import SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.requests import ANSWERED, Request
from routing.simulator.results import quantile
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic, Workload


class Deadlines(NamedTuple):
    """How long clients wait."""

    seconds: float
    relative: bool = False
    """Whether that is times what the request takes alone at a server of the fleet's mean speed."""
    share: float = 1.0
    """Of the requests that have a deadline, drawn at random."""


@dataclass(frozen=True, slots=True)
class WithDeadlines:
    """A workload some of whose requests have deadlines."""

    workload: Workload
    deadlines: Deadlines

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def sentence(self) -> str:
        return self.workload.sentence

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        draw = stream(traffic.seed, "deadlines").random
        seconds, relative, share = self.deadlines
        speed = fmean(machine.speed for machine in fleet.machines)
        gpu = getattr(self.workload, "gpu", Gpu())
        for request in self.workload.requests(traffic, fleet):
            if draw() < share:
                request.deadline_s = seconds * (_alone_s(request, gpu) / speed if relative else 1.0)
            yield request


def _alone_s(request: Request, gpu: Gpu) -> float:
    """What it takes at a server of speed 1 that has nothing else to do."""
    if not request.output_tokens:
        return request.seconds
    return request.prompt_tokens * gpu.prompt_token_s + request.output_tokens * (gpu.step_s + gpu.sequence_s)


class InTime(NamedTuple):
    """Shares of the requests that had an objective, and latencies of those that had no deadline."""

    deadlines_met: float | None
    """``None``: no request had one."""
    first_tokens_in_time: float | None
    rest_mean_s: float | None
    """``None``: all that were answered had a deadline, or none had one."""
    rest_p99_s: float | None


def in_time(requests: Sequence[Request], first_token_s: float | None) -> InTime:
    """``first_token_s``: the fleet's objective."""
    due = [one for one in requests if one.deadline_s < inf]
    streams = [one for one in requests if one.output_tokens] if first_token_s else []
    rest = sorted(one.latency_s for one in requests if one.deadline_s == inf and one.end == ANSWERED)
    return InTime(
        fmean(one.end == ANSWERED for one in due) if due else None,
        fmean(one.first_byte_s - one.at_s <= (first_token_s or 0.0) for one in streams) if streams else None,
        fmean(rest) if due and rest else None,
        quantile(rest, 0.99) if due and rest else None,
    )
