"""When requests arrive and how long they are: from a trace file, or drawn from a table fitted to one.

The public trace is Azure's "LLM inference 2023, conversation" (19,366 requests in an hour, CC-BY-4.0,
github.com/Azure/AzurePublicDataset; Patel et al., "Splitwise", ISCA 2024). It is not shipped here. The
tables below are its percentiles; drawing by the inverse of the distribution function between them
gives its mixture of many short and a few very long requests, which one log-normal would not.
"""

import csv
import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

PERCENT = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100)
GAP_S = (
    *(0.0, 0.0005, 0.0063, 0.0161, 0.0365, 0.0607, 0.0873, 0.1184),
    *(0.1587, 0.2136, 0.2888, 0.4207, 0.5652, 0.8897, 1.4112, 4.3146),
)
CONTEXT_TOKENS = (2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2734, 4083, 4142, 6179, 14050)
GENERATED_TOKENS = (7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 601, 954, 1000)
MEAN_GAP_S = 0.1808


class Arrival(NamedTuple):
    gap_s: float
    """Seconds since the arrival before."""
    context_tokens: int
    generated_tokens: int


def synthetic(rng: random.Random) -> Iterator[Arrival]:
    """Endless arrivals at the trace's own 5.5 a second; the two lengths are independent (there: r = 0.09)."""
    while True:
        yield Arrival(
            drawn(GAP_S, rng.random()),
            round(drawn(CONTEXT_TOKENS, rng.random())),
            round(drawn(GENERATED_TOKENS, rng.random())),
        )


def drawn(table: tuple[float, ...], uniform: float) -> float:
    """Value at the percentile ``100 · uniform`` of a table over PERCENT, linear in between."""
    percent = 100 * uniform
    for index in range(1, len(PERCENT)):
        if percent <= PERCENT[index]:
            share = (percent - PERCENT[index - 1]) / (PERCENT[index] - PERCENT[index - 1])
            return table[index - 1] + share * (table[index] - table[index - 1])
    return table[-1]


def from_file(path: Path) -> Iterator[Arrival]:
    """The trace's own arrivals, once. Raises ValueError naming the line that cannot be read."""
    with path.open(newline="") as lines:
        before: datetime | None = None
        for row in csv.DictReader(lines):
            try:
                at = datetime.fromisoformat(row["TIMESTAMP"][:26])
                lengths = int(row["ContextTokens"]), int(row["GeneratedTokens"])
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: {row} is not a row of the trace ({error})") from None
            yield Arrival((at - before).total_seconds() if before else 0.0, *lengths)
            before = at


def replayed(path: Path) -> Iterator[Arrival]:
    """The trace over and over."""
    while True:
        yield from from_file(path)
