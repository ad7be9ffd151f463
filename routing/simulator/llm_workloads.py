"""LLM workloads: requests drawn from distributions, or replayed from a trace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from routing.simulator.arrivals import times
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.llm_lengths import AZURE_CODE, Lengths
from routing.simulator.prefix_cache import packed
from routing.simulator.recorded import Recorded
from routing.simulator.requests import Request
from routing.simulator.shared_beginnings import SharedBeginnings
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic

_MEANS_OF = 20_000
"""Draws that a distribution's means are taken from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations:
    """Lengths drawn from a distribution, each request independent of the others. ``gpu``: what capacity is
    reckoned with. The proxy is told prompt and output tokens together, as well as the traffic lets it."""

    name: str = "llm"
    sentence: str = "prompts and answers as long as in Azure's conversation trace of 2023, drawn"
    lengths: Lengths = field(default_factory=Lengths)
    block_tokens: int = 0
    gpu: Gpu = field(default_factory=Gpu)

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        rng = stream(0, "mean lengths")
        drawn = [self.lengths.draw(rng) for _ in range(_MEANS_OF)]
        prompt, output = fmean(one for one, _ in drawn), fmean(one for _, one in drawn)
        rate = traffic.load * fleet.capacity * self.gpu.requests_per_s(prompt, output)
        sizes, noise = stream(traffic.seed, "sizes"), stream(traffic.seed, "noise")
        arrivals = stream(traffic.seed, "arrivals")
        for at_s in times(arrivals, rate, traffic.duration_s, traffic.cv, traffic.profile):
            prompt_tokens, output_tokens = self.lengths.draw(sizes)
            estimated = traffic.estimate(prompt_tokens + output_tokens, noise)
            yield Request(at_s, estimate=estimated, prompt_tokens=prompt_tokens, output_tokens=output_tokens)


CODE = Conversations(
    name="code",
    sentence="prompts and answers as long as in Azure's code completion trace of 2023, drawn",
    lengths=Lengths(AZURE_CODE),
)
"""Nearly all prompt: servers with continuous batching mostly read in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What a trace has recorded, in its order; its gaps are stretched or shrunk so that the load is as asked.

    It ends with the trace or with the traffic's duration, whichever comes first. The seed only makes noise.
    """

    name: str
    sentence: str
    recorded: Sequence[Recorded]
    block_tokens: int = 0
    """Of the blocks that keys name, which servers may keep; 0: they name none."""
    gpu: Gpu = field(default_factory=Gpu)

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        trace = self.recorded
        prompt = fmean(one.prompt_tokens for one in trace)
        output = fmean(max(1, one.output_tokens) for one in trace)
        rate = traffic.load * fleet.capacity * self.gpu.requests_per_s(prompt, output)
        began_s = trace[0].at_s
        lasted_s = trace[-1].at_s - began_s
        # All in one moment: there is nothing to stretch.
        stretch = len(trace) / rate / lasted_s if lasted_s else 0.0
        noise = stream(traffic.seed, "noise")
        for one in trace:
            at_s = (one.at_s - began_s) * stretch
            if at_s >= traffic.duration_s:
                return
            yield Request(
                at_s,
                estimate=traffic.estimate(one.prompt_tokens + one.output_tokens, noise),
                prompt_tokens=one.prompt_tokens,
                output_tokens=one.output_tokens,
                key=packed(one.blocks) if one.blocks else b"",
            )


LlmWorkload = Conversations | SharedBeginnings | Replayed
