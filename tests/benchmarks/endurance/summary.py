"""The summary of the endurance run: each series' first and last quarter, its slope, and a verdict.

    python -m tests.benchmarks.endurance.summary CSV

A process is looked at over its own life, since a fault ends it; its first minutes, in which it fills what it
keeps, count for nothing. Series without a process are looked at over the whole run.
"""

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

WARM_S = 240.0
SHORTEST_S = 480.0
"""Of a process's life after its first minutes: less says nothing."""
PART, LEAST = 0.05, {"PSS MiB": 2.0, "RSS MiB": 2.0, "descriptors": 3.0, "threads": 1.0}
"""What may differ between the quarters: this part, or so much of that."""
BOUNDED = {
    "rows/controlplane_event": "90 days",
    "rows/controlplane_auditentry": "365 days",
    "rows/controlplane_policyrevision": "365 days",
    "rows/controlplane_clientkey": "365 days",
    "rows/django_session": "14 days",
    "database/": "by its rows, and 4 MiB of log",
    "redis elements/0 sy:history:": "900 points of 1 s, 8,640 of 10 s",
    "redis/used_memory": "by that history",
    "file MiB/logs/": "5 MB, and two older ones",
    "processes/proxy master": "one with each upgrade",
}
"""Series by how they begin, and what ends their growth (docs/production.md). Longer than the run, for all of
them."""
Points = list[tuple[float, float]]


class Line(NamedTuple):
    name: str
    first: float
    last: float
    most: float
    per_hour: float
    verdict: str


def read(file: Path) -> dict[str, Points]:
    series: dict[str, Points] = defaultdict(list)
    with file.open(newline="") as lines:
        for at_s, name, value in csv.reader(lines):
            series[name].append((float(at_s), float(value)))
    return series


def line_of(name: str, points: Points, warm_s: float = WARM_S) -> Line | None:
    """``None``: it was seen for too short a time."""
    is_process = re.search(r"/\d+$", name) is not None
    begin = points[0][0] + warm_s if is_process else warm_s
    points = [point for point in points if point[0] >= begin]
    if len(points) < 4 or (is_process and points[-1][0] - points[0][0] < SHORTEST_S):
        return None
    quarter = max(1, len(points) // 4)
    values = [value for _, value in points]
    first, last = median(values[:quarter]), median(values[-quarter:])
    slope, _ = linear_regression([at_s / 3600 for at_s, _ in points], values)
    allowed = max(PART * abs(first), LEAST.get(name.partition("/")[0], 1.0))
    bound = next((f"until {bound}" for begin, bound in BOUNDED.items() if name.startswith(begin)), "GROWS")
    verdict = "flat" if last - first <= allowed else bound
    return Line(name, first, last, max(values), slope, verdict)


def table(series: dict[str, Points], warm_s: float = WARM_S) -> str:
    lines = [line for name in sorted(series) if (line := line_of(name, series[name], warm_s))]
    told = [f"{'series':58} {'1st quarter':>12} {'last':>12} {'most':>12} {'per hour':>12}  verdict"]
    for line in lines:
        if line.verdict == "flat" and line.per_hour == 0:
            continue  # a constant
        numbers = " ".join(f"{value:12.1f}" for value in line[1:5])
        told.append(f"{line.name[:58]:58} {numbers}  {line.verdict}")
    return "\n".join(told)


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]))))
