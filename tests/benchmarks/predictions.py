"""How good predictions of completion and first token are: ``python -m tests.benchmarks.predictions``.

Servers that batch, lengths of conversations (the workload ``llm``), the default strategy, weights not told.
Printed is, over the seeds, the worst median error (of the predicted median, relative to what it took) and
the lowest and highest share of responses within the interval predicted for 80 % of them. A bar stands
beside what it is for.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from routing.contract.sketch import quantile
from routing.contract.telemetry import SparseSketch
from routing.simulator.estimates import EstimateKind, estimate
from routing.simulator.fleets import UNEQUAL, SimulatedFleet
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import Conversations
from routing.simulator.requests import Request
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import Traffic


class ResponseLengthTold:
    """Conversations of which each tells the length of its response, and no more."""

    name = "response length told"
    sentence = "as llm; the estimate is the output tokens"

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        for request in Conversations().requests(traffic, fleet):
            request.estimate = float(request.output_tokens)
            yield request


class Accuracy(NamedTuple):
    """Of the predictions of one kind."""

    compared: int
    median_error: float
    """Relative to what it took."""
    within: float
    """Share of the responses that were within their interval."""


MOST_ERROR, LEAST_WITHIN, MOST_WITHIN = 0.15, 0.75, 0.85


def measured(told: str, load: float, seed: int, seconds: float) -> tuple[Accuracy, Accuracy]:
    """Completion and first token. ``told``: ``response``, ``both`` (prompt and response in one number) or
    ``none``."""
    kind: EstimateKind = "none" if told == "none" else "exact"
    setting = Setting(
        fleet=batching(UNEQUAL, weights=False),
        workload=ResponseLengthTold() if told == "response" else Conversations(),
        traffic=Traffic(load=load, duration_s=seconds, seed=seed, estimate=estimate(kind)),
    )
    (counters,) = simulate(setting, "least_expected_work").counters
    return (
        _accuracy(counters.prediction_error, counters.predictions_within),
        _accuracy(counters.first_token_prediction_error, counters.first_token_predictions_within),
    )


def _accuracy(errors: SparseSketch, within: int) -> Accuracy:
    compared, median = sum(errors.values()), quantile(errors, 0.5)
    if median is None:
        raise AssertionError("nothing was compared: the run is too short")
    return Accuracy(compared, median, within / compared)


def main() -> None:
    """Prints one row a kind of prediction and load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0, help="of each run's arrivals, simulated")
    given = parser.parse_args()
    print("| prediction | load | compared | median error, worst | within the 80 % interval |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for told in ("response", "both", "none"):
        for load in (0.5, 0.85):
            runs = [measured(told, load, seed, given.seconds) for seed in range(1, given.seeds + 1)]
            for kind, found in zip(("completion", "first token"), zip(*runs, strict=True), strict=True):
                print(_row(kind, told, load, found), flush=True)


def _row(kind: str, told: str, load: float, found: tuple[Accuracy, ...]) -> str:
    words = {
        "response": "response length told",
        "both": "prompt and response told together",
        "none": "length unknown",
    }[told]
    error, shares = max(one.median_error for one in found), [one.within for one in found]
    bars = {("completion", "response"): (f" (bar: ≤ {MOST_ERROR:.0%})", "")}
    bars["completion", "none"] = "", f" (bar: {LEAST_WITHIN:.0%} to {MOST_WITHIN:.0%})"
    error_bar, within_bar = bars.get((kind, told), ("", ""))
    return (
        f"| {kind}, {words} | {load:.0%} | {sum(one.compared for one in found)} | {error:.1%}{error_bar} "
        f"| {min(shares):.1%} to {max(shares):.1%}{within_bar} |"
    )


if __name__ == "__main__":
    main()
