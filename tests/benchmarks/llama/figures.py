"""What a run took, and how far the simulator is off."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from routing.simulator.results import quantile
from tests.benchmarks.llama.client import Job, Seen


def times_of(jobs: Sequence[Job], seen: Sequence[Seen], names: Sequence[str]) -> dict[str, float]:
    """Seconds."""
    ended = sorted(one.ended_s for one in seen)
    first = sorted(one.first_s for one in seen)
    found = {
        "mean": fmean(ended),
        "p50": quantile(ended, 0.5),
        "p90": quantile(ended, 0.9),
        "first token, mean": fmean(first),
        "first token, p90": quantile(first, 0.9),
        "per token, mean": fmean(
            one.ended_s / job.output_tokens for job, one in zip(jobs, seen, strict=True)
        ),
    }
    for name in names:
        there = [one.ended_s for one in seen if one.replica == name]
        found[f"mean at {name}"] = fmean(there) if there else 0.0
    return found


def shares_of(seen: Sequence[Seen], names: Sequence[str]) -> dict[str, float]:
    """Of the requests, by replica."""
    there = Counter(one.replica for one in seen)
    return {f"share of {name}": there[name] / len(seen) for name in names}


def table(
    jobs: Sequence[Job], names: Sequence[str], real: Sequence[Seen], simulated: Mapping[str, Sequence[Seen]]
) -> str:
    """One row a figure, two columns a simulation: what it says, and its error (that ÷ real - 1)."""
    heads = " | ".join(f"{name} | error" for name in simulated)
    lines = [f"| | real | {heads} |", "| --- |" + " ---: |" * (1 + 2 * len(simulated))]
    really = times_of(jobs, real, names)
    told = [times_of(jobs, one, names) for one in simulated.values()]
    for name, value in really.items():
        cells = " | ".join(f"{1000 * one[name]:.0f} | {one[name] / value - 1:+.1%}" for one in told)
        lines.append(f"| {name}, ms | {1000 * value:.0f} | {cells} |")
    shares = [shares_of(one, names) for one in simulated.values()]
    for name, value in shares_of(real, names).items():
        cells = " | ".join(f"{one[name]:.1%} | {100 * (one[name] - value):+.1f} points" for one in shares)
        lines.append(f"| {name} | {value:.1%} | {cells} |")
    return "\n".join(lines)
