"""What sharing the memory of prompts is worth: ``python -m tests.benchmarks.prefix_sharing [--seeds 3]``.

The simulator's conversations on its sixteen unequal servers at load 1.3 (of what they could do if they kept
nothing), under ``prefix_affinity``: with one worker, and with several that share as those of a host do.
Printed are medians over seeds: the share of prompt tokens that servers found in their caches, the mean
response time in seconds, and each divided by one worker's of the same seed.
"""

import argparse
from dataclasses import replace
from statistics import fmean, median

from routing.simulator import options
from routing.simulator.simulation import simulate
from routing.simulator.token_results import cached_share

LAYOUTS = {"one worker": (1, 1), "four workers": (1, 4), "two hosts": (2, 1), "two hosts of four": (2, 4)}
"""Proxies, and workers of each."""
SIMULATED = "--workload conversations --load 1.3 --hide-weights --steady"


def measure(seed: int, duration_s: float, proxies: int, workers: int) -> tuple[float, float]:
    """Cached share, and mean response time."""
    words = f"{SIMULATED} --seed {seed} --duration {duration_s:g} --proxies {proxies}"
    setting = replace(options.parse(words.split()).setting, workers=workers)
    requests = simulate(setting, "prefix_affinity").requests
    return cached_share(requests) or 0.0, fmean(request.latency_s for request in requests)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prefix_sharing")
    parser.add_argument("--seeds", type=int, default=3, help="of the simulation, from 1 on; default 3")
    parser.add_argument("--duration", type=float, default=60.0, help="simulated seconds; default 60")
    given = parser.parse_args()
    seeds = range(1, given.seeds + 1)
    alone: dict[int, tuple[float, float]] = {}
    print(f"{'':20}{'cached':>8}{'÷ one':>8}{'mean s':>8}{'÷ one':>8}")
    for name, (proxies, workers) in LAYOUTS.items():
        found = {seed: measure(seed, given.duration, proxies, workers) for seed in seeds}
        alone = alone or found
        figures = []
        for number in range(2):
            figures.append(median(found[seed][number] for seed in seeds))
            figures.append(median(found[seed][number] / alone[seed][number] for seed in seeds))
        print(f"{name:20}" + "".join(f"{figure:8.3f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
