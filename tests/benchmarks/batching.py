"""The default strategy on servers that batch, by simulation: ``python -m tests.benchmarks.batching``.

It is told nothing: every weight is 1. The other strategies are told how fast each server is. Of every figure
the ratio is taken to the best of the others in the same run, which may be another one for each figure;
printed are the median and the worst of the seeds.
"""

import argparse
from statistics import median
from typing import NamedTuple

from routing.balancing import strategies
from routing.simulator.estimates import EstimateKind, estimate
from routing.simulator.faults import Slowdown
from routing.simulator.fleets import UNEQUAL
from routing.simulator.gpus import Gpu
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_lengths import AZURE_CONVERSATION, Band, Lengths
from routing.simulator.llm_workloads import Conversations
from routing.simulator.simulation import Setting, simulate
from routing.simulator.token_results import figures
from routing.simulator.workloads import Traffic

DEFAULT = "least_expected_work"
OTHERS = [name for name in strategies.names() if name not in (DEFAULT, "consistent_hash", "prefix_affinity")]
FIGURES = {
    "mean": "mean_s",
    "p99": "p99_s",
    "p99 first token": "p99_first_token_s",
    "p99 per token": "p99_s_per_token",
    "p99 between tokens": "p99_s_between_tokens",
}


class Case(NamedTuple):
    """One row of what is compared."""

    slow: bool = True
    """Whether the last server has a third of its speed in the middle third of the run."""
    speeds: tuple[float, ...] = UNEQUAL
    load: float = 0.85
    told: EstimateKind = "none"
    """Of each request's work."""
    proxies: int = 1
    gpu: Gpu = Gpu()
    lengths: Lengths = Lengths()


def _long_prompts(band: Band) -> Band:
    prompt, output = (6 * one for one in band.prompt), (max(1, one // 2) for one in band.output)
    return Band(band.share, tuple(prompt), tuple(output))


LONG_PROMPTS = Lengths([_long_prompts(band) for band in AZURE_CONVERSATION])
CASES = {
    "one slows down": Case(),
    "none does": Case(slow=False),
    "equal servers": Case(slow=False, speeds=(2.0,) * 16),
    "noisy lengths told": Case(told="noisy"),
    "four proxies": Case(proxies=4),
    "load 50 %": Case(load=0.5),
    "load 95 %": Case(slow=False, load=0.95),
    "KV memory for 40k tokens": Case(gpu=Gpu(kv_tokens=40_000)),
    "prompts × 6 and answers ÷ 2": Case(lengths=LONG_PROMPTS),
}


def main() -> None:
    """Prints one row a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0, help="of each run's arrivals")
    parser.add_argument("--only", default=",".join(CASES), help="cases, comma-separated")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"--only: there is no case {unknown[0]!r}; choose of: {', '.join(CASES)}")
    print("| default ÷ best other: median (worst) | " + " | ".join(FIGURES) + " |")
    print("| --- |" + " ---: |" * len(FIGURES))
    for name in names:
        ratios = [_ratios(CASES[name], seed, given.seconds) for seed in range(1, given.seeds + 1)]
        cells = (f"{median(one):.2f} ({max(one):.2f})" for one in zip(*ratios, strict=True))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _ratios(case: Case, seed: int, seconds: float) -> list[float]:
    ours = _run(case, DEFAULT, seed, seconds)
    others = [_run(case, name, seed, seconds) for name in OTHERS]
    return [ours[key] / min(other[key] for other in others) for key in FIGURES.values()]


def _run(case: Case, strategy: str, seed: int, seconds: float) -> dict[str, float]:
    last = f"r{len(case.speeds)}"
    slowdown = Slowdown(replica=last, begin_s=seconds / 3, end_s=seconds * 2 / 3)
    setting = Setting(
        fleet=batching(case.speeds, case.gpu, weights=strategy != DEFAULT),
        workload=Conversations(gpu=case.gpu, lengths=case.lengths),
        traffic=Traffic(load=case.load, duration_s=seconds, seed=seed, estimate=estimate(case.told)),
        faults=[slowdown] if case.slow else [],
        proxies=case.proxies,
    )
    found = figures(simulate(setting, strategy))
    if found["not_answered"]:
        raise AssertionError(f"{strategy} left {found['not_answered']} requests without an answer")
    return {key: float(found[key]) for key in FIGURES.values()}


if __name__ == "__main__":
    main()
