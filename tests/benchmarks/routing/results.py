"""What the trace was like behind each proxy: tables, ratios and plots."""

import argparse
import os
import platform
import statistics
from pathlib import Path

from routing.simulator.plot import svg
from routing.simulator.results import quantile
from tests.benchmarks.routing.client import Seen

Found = dict[str, dict[str, list[list[Seen]]]]
"""Workload → proxy → rounds → what became of each request."""

WHOLE = {"p50_s": "p50", "p95_s": "p95", "p99_s": "p99", "mean_s": "mean"}
STREAMED = {
    "mean_s": "mean total",
    "first_p50_s": "first token p50",
    "first_p99_s": "p99",
    "per_token_p50_s": "per token p50",
    "per_token_p99_s": "p99",
}


def of_round(seen: list[Seen]) -> dict[str, float]:
    """Figures of one round. Requests that failed count in ``failed`` alone."""
    well = [one for one in seen if one.ended_well]
    figures: dict[str, float] = {"failed": (len(seen) - len(well)) / len(seen), "requests": len(seen)}
    if not well:
        return figures
    took = sorted(one.took_s for one in well)
    figures |= {
        "p50_s": quantile(took, 0.5),
        "p95_s": quantile(took, 0.95),
        "p99_s": quantile(took, 0.99),
        "mean_s": statistics.mean(took),
    }
    if any(one.tokens > 1 for one in well):
        first = sorted(one.first_s for one in well)
        each = sorted(one.per_token_s for one in well if one.tokens > 1)
        figures |= {
            "first_p50_s": quantile(first, 0.5),
            "first_p99_s": quantile(first, 0.99),
            "per_token_p50_s": quantile(each, 0.5),
            "per_token_p99_s": quantile(each, 0.99),
        }
    return figures


def figures(found: Found) -> dict[str, dict[str, dict[str, float]]]:
    """Workload → proxy → figure: medians of the rounds."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for workload, proxies in found.items():
        for proxy, rounds in proxies.items():
            each = [of_round(seen) for seen in rounds]
            names = set.intersection(*(set(one) for one in each))
            medians = {name: statistics.median(one[name] for one in each) for name in sorted(names)}
            table.setdefault(workload, {})[proxy] = medians
    return table


def report(found: Found, options: argparse.Namespace) -> None:
    table = figures(found)
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    for workload, proxies in table.items():
        count = int(next(iter(proxies.values()))["requests"])
        slowed = "; one of the fastest three times slower in the middle third" if options.slowed else ""
        blurred = f"; work misjudged by a lognormal of sigma {options.noise:g}" if options.noise else ""
        size = f"{count:,} requests in {options.seconds:g} s, {options.rounds} rounds"
        print(f"\n{workload}: {size}{slowed}{blurred}\n")
        columns = STREAMED if workload == "batching" else WHOLE
        print(f"| milliseconds | {' | '.join(columns.values())} | failed |")
        print("| --- |" + " ---: |" * (len(columns) + 1))
        for proxy, seen in proxies.items():
            cells = [f"{seen[name] * 1000:,.0f}" if name in seen else "–" for name in columns]
            print(f"| {proxy} | {' | '.join(cells)} | {seen['failed']:.2%} |")
        ratios(workload, proxies, columns)


def ratios(workload: str, proxies: dict[str, dict[str, float]], columns: dict[str, str]) -> None:
    """Ours ÷ the best of the others, figure by figure."""
    ours = proxies.get("switchyard")
    others = [seen for proxy, seen in proxies.items() if proxy != "switchyard" and not seen["failed"]]
    if ours is None or not others:
        return
    said = [
        f"{name} {ours[name] / min(other[name] for other in others):.2f}" for name in columns if name in ours
    ]
    print(f"\n{workload}, ours ÷ the best other one: {', '.join(said)}")


class Behind:
    """Latencies behind one proxy, as the simulator's plot reads them."""

    def __init__(self, proxy: str, rounds: list[list[Seen]]) -> None:
        self.strategy = proxy
        self.latencies = sorted(one.took_s for seen in rounds for one in seen if one.ended_well)
        self.mean_s = statistics.mean(self.latencies or [0.0])

    def quantile(self, share: float) -> float:
        return quantile(self.latencies, share)


def plot(found: Found, folder: Path) -> None:
    """One picture for each workload, ``routing-NAME.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    for workload, proxies in found.items():
        drawn = [Behind(proxy, rounds) for proxy, rounds in proxies.items()]
        picture = svg(drawn, f"16 replicas of unequal speed, {workload} requests, on the wire")
        (folder / f"routing-{workload}.svg").write_text(picture)
