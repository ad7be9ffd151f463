"""The default strategy where servers have a limit, by simulation: ``python -m tests.benchmarks.limits``.

Four comparisons, each figure with its bar beside it:

- eight equal LLM servers: the default strategy beside ``least_connections`` under the same limit;
- the same: with a limit beside without one, where the limit is not reached;
- LLM servers of unequal speeds, one of them slowed for a while, all with a limit: the default strategy, which
  is not told the speeds, beside the best of the others, which are;
- four equal servers with slots, three of which are slow for their first three answers: the smallest share of
  the requests that one of them gets later.

Printed are the median and the worst of the seeds. Nothing passes or fails.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from routing.contract.policy import Policy
from routing.simulator.faults import Slowdown
from routing.simulator.fleets import UNEQUAL, SimulatedFleet, fixed_slots
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import Conversations
from routing.simulator.results import Result
from routing.simulator.simulation import Setting, simulate
from routing.simulator.token_results import figures
from routing.simulator.warm_up import WarmUp
from routing.simulator.workloads import Sized, Traffic
from tests.benchmarks.batching import DEFAULT, OTHERS

EIGHT = (1.0,) * 8
LOADS = (0.3, 0.6, 0.85)
LIMITS = (32, 64, 256)
SLOWED_LIMIT = 64

FOUR = (1.0,) * 4
TENTH = Sized("tenth", "every request takes 100 ms", 0.1, lambda rng: 0.1)
SLOTS = 8
PER_S = 40.0
SLOW_START = WarmUp(answers=3, factor=0.05)
"""Three answers of 2 s each."""
SHARES_FROM_S, SHARES_UNTIL_S = 10.0, 30.0


class Given(NamedTuple):
    """Of the command line."""

    seeds: int
    seconds: float


class Row(NamedTuple):
    """One figure: of each seed, in the seeds' order."""

    what: str
    figure: str
    bar: str
    found: list[float]
    worst: Callable[[list[float]], float] = max
    note: str = ""

    def __str__(self) -> str:
        found = f"{median(self.found):.3f} ({self.worst(self.found):.3f})" if self.found else "–"
        return f"| {self.what} | {self.figure} | {self.bar} | {found} | {self.note} |"


class Equal(NamedTuple):
    """A run of equal servers: a key of what has been run already."""

    strategy: str
    load: float
    limit: int | None
    seed: int


class EqualServers:
    """Runs of eight equal LLM servers; each is made once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._results: dict[Equal, Result] = {}

    def result(self, run: Equal) -> Result:
        if run not in self._results:
            fleet = batching(EIGHT)
            setting = Setting(
                fleet=fleet if run.limit is None else fleet.limited(run.limit),
                workload=Conversations(),
                traffic=Traffic(load=run.load, duration_s=self._seconds, seed=run.seed),
                policy=Policy(),
            )
            self._results[run] = simulate(setting, run.strategy)
        return self._results[run]

    def ratio(self, figure: str, run: Equal, other: Equal) -> float:
        return _figure(self.result(run), figure) / _figure(self.result(other), figure)


def _figure(result: Result, name: str) -> float:
    return float(figures(result)[name])


def beside_least_connections(given: Given, servers: EqualServers) -> Iterator[Row]:
    for load in LOADS:
        for limit in LIMITS:
            for words, figure, bar in (
                ("mean", "mean_s", "≤ 1.00"),
                ("p99 first token", "p99_first_token_s", "≤ 1.05"),
            ):
                runs = [Equal(DEFAULT, load, limit, seed) for seed in range(1, given.seeds + 1)]
                found = [
                    servers.ratio(figure, run, run._replace(strategy="least_connections")) for run in runs
                ]
                yield Row(
                    f"8 equal, load {load:g}, limit {limit} ÷ `least_connections`",
                    words,
                    bar,
                    found,
                    note=_refused([servers.result(run) for run in runs]),
                )


def beside_no_limit(given: Given, servers: EqualServers) -> Iterator[Row]:
    for load in LOADS:
        for limit in LIMITS:
            runs = [Equal(DEFAULT, load, limit, seed) for seed in range(1, given.seeds + 1)]
            peaks = [servers.result(run._replace(limit=None)).peak_in_flight for run in runs]
            what = f"8 equal, load {load:g}, limit {limit} ÷ no limit"
            if max(peaks) > limit:
                yield Row(what, "", "", [], note=f"reached: {max(peaks)} in flight without it")
                continue
            for words, figure in (("mean", "mean_s"), ("p99 first token", "p99_first_token_s")):
                found = [servers.ratio(figure, run, run._replace(limit=None)) for run in runs]
                yield Row(what, words, "≤ 1.02", found)


def unequal_and_one_slowed(given: Given) -> Iterator[Row]:
    asked = (
        ("mean", "mean_s", "≤ 0.95"),
        ("p99 per token", "p99_s_per_token", "≤ 0.75"),
        ("p99 first token", "p99_first_token_s", "≤ 1.00"),
    )
    found: dict[str, list[float]] = {figure: [] for _, figure, _ in asked}
    for seed in range(1, given.seeds + 1):
        ours = figures(_slowed(DEFAULT, seed, given.seconds))
        others = [figures(_slowed(name, seed, given.seconds)) for name in OTHERS]
        for figure, ratios in found.items():
            ratios.append(float(ours[figure]) / min(float(other[figure]) for other in others))
    for words, figure, bar in asked:
        yield Row(f"unequal, one slowed, limit {SLOWED_LIMIT} ÷ best other", words, bar, found[figure])


def _slowed(strategy: str, seed: int, seconds: float) -> Result:
    slowdown = Slowdown(replica=f"r{len(UNEQUAL)}", begin_s=seconds / 3, end_s=seconds * 2 / 3)
    setting = Setting(
        fleet=batching(UNEQUAL, weights=strategy != DEFAULT).limited(SLOWED_LIMIT),
        workload=Conversations(),
        traffic=Traffic(duration_s=seconds, seed=seed),
        faults=[slowdown],
        policy=Policy(),
    )
    return simulate(setting, strategy)


def three_slow_at_first(given: Given) -> Iterator[Row]:
    fleet = three_of_four_warm_up()
    names = [machine.name for machine in fleet.machines]
    found = []
    for seed in range(1, given.seeds + 1):
        traffic = Traffic(load=PER_S * 0.1 / fleet.capacity, duration_s=SHARES_UNTIL_S, seed=seed)
        setting = Setting(fleet=fleet, workload=TENTH, traffic=traffic, policy=Policy())
        shares = simulate(setting, DEFAULT).since(SHARES_FROM_S).shares(names)
        found.append(min(shares.values()))
    yield Row(
        "three of four slow for their first three answers",
        f"smallest share from {SHARES_FROM_S:g} s on",
        "≥ 0.20",
        found,
        worst=min,
    )


def three_of_four_warm_up() -> SimulatedFleet:
    """100 ms, eight slots and a limit of eight; the first of them is fast from the start."""
    fleet = fixed_slots(FOUR, SLOTS)
    first, *others = fleet.machines
    return replace(fleet, machines=[first, *(replace(one, warm_up=SLOW_START) for one in others)])


def _refused(results: list[Result]) -> str:
    """How many the default strategy left unanswered, which a mean of the others does not show."""
    lost = sum(result.not_answered for result in results)
    return f"{lost / sum(len(result.requests) for result in results):.2%} not answered" if lost else ""


ROWS = ("least_connections", "no_limit", "slowed", "warm_up")


def main() -> None:
    """Prints one row a figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=90.0, help="of each run's arrivals to LLM servers")
    parser.add_argument("--only", default=",".join(ROWS), help=f"comma-separated: {', '.join(ROWS)}")
    options = parser.parse_args()
    given = Given(options.seeds, options.seconds)
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in ROWS]:
        parser.error(f"--only: there is no {unknown[0]!r}; choose of: {', '.join(ROWS)}")
    servers = EqualServers(given.seconds)
    makers: dict[str, Callable[[], Iterator[Row]]] = {
        "least_connections": lambda: beside_least_connections(given, servers),
        "no_limit": lambda: beside_no_limit(given, servers),
        "slowed": lambda: unequal_and_one_slowed(given),
        "warm_up": lambda: three_slow_at_first(given),
    }
    print(f"| default strategy, {given.seeds} seeds | figure | bar | median (worst) | |")
    print("| --- | --- | --- | ---: | --- |")
    for name in chosen:
        for row in makers[name]():
            print(row, flush=True)


if __name__ == "__main__":
    main()
