"""What the processes of a benchmark say of themselves: their metrics pages, and quantiles from them."""

import re
import urllib.request

Page = dict[str, float]
"""Metric with its labels → value."""


def scrape(port: int) -> Page:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
    return {key: float(value) for key, _, value in pairs}


def buckets(before: Page, after: Page, metric: str) -> dict[float, int]:
    """Upper bound in seconds → how many were at most that, between two readings."""
    found = {}
    for key, value in after.items():
        if at := re.fullmatch(rf'{metric}_bucket{{le="(.*)"}}', key):
            found[float(at[1])] = int(value - before.get(key, 0))
    return dict(sorted(found.items()))


def quantile(before: Page, after: Page, metric: str, q: float) -> str:
    """Upper bound of the bucket that holds it."""
    counted = buckets(before, after, metric)
    total = counted.get(float("inf"), 0)
    return next((f"<= {le:g} s" for le, n in counted.items() if total and n >= q * total), "none")


def mean_ms(before: Page, after: Page, metric: str) -> tuple[int, float]:
    """How many there were between two readings, and their mean."""
    made = after.get(f"{metric}_count", 0) - before.get(f"{metric}_count", 0)
    spent = after.get(f"{metric}_sum", 0) - before.get(f"{metric}_sum", 0)
    return int(made), 1000 * spent / max(made, 1)
