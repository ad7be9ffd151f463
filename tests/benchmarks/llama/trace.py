"""The trace: lengths of Azure's conversations, an eighth as long, so that they fit into small servers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from routing.simulator.arrivals import times
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.llm_lengths import Lengths
from routing.simulator.requests import Request
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic
from tests.benchmarks.llama.client import Job
from tests.benchmarks.llama.server import SLOT_TOKENS

SHORTER = 8
MOST_OUTPUT = 100
MOST_PROMPT = SLOT_TOKENS - MOST_OUTPUT - 8
_MEANS_OF = 2000


def drawn(gpu: Gpu, speed: float, load: float, seconds: float, seed: int) -> list[Job]:
    """Poisson arrivals. ``load``: of what servers of this ``speed`` in all get done with full batches."""
    lengths, means = Lengths(), stream(0, "mean lengths")
    some = [_draw(lengths, means) for _ in range(_MEANS_OF)]
    per_s = gpu.requests_per_s(fmean(prompt for prompt, _ in some), fmean(output for _, output in some))
    sizes = stream(seed, "sizes")
    arrivals = times(stream(seed, "arrivals"), load * speed * per_s, seconds)
    return [Job(at_s, *_draw(lengths, sizes)) for at_s in arrivals]


def _draw(lengths: Lengths, rng: Random) -> tuple[int, int]:
    prompt, output = (max(1, tokens // SHORTER) for tokens in lengths.draw(rng))
    return min(prompt, MOST_PROMPT), min(output, MOST_OUTPUT)


@dataclass(frozen=True)
class Recorded:
    """Jobs as a workload of the simulator; their times stay as they are."""

    jobs: Sequence[Job]
    name: str = "recorded"
    sentence: str = "the jobs that real servers got"

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        noise = stream(traffic.seed, "noise")
        for job in self.jobs:
            yield Request(
                job.at_s,
                estimate=traffic.estimate(job.prompt_tokens + job.output_tokens, noise),
                prompt_tokens=job.prompt_tokens,
                output_tokens=job.output_tokens,
            )
