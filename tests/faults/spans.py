"""Latency during each span between two faults: 50th and 99th percentiles as clients measured them."""

from collections.abc import Iterable, Sequence

from tests.faults.load import STREAMED, Result

BEFORE = "before any fault"


def during(results: Iterable[Result], since: float, until: float) -> list[Result]:
    """Requests begun then."""
    return [one for one in results if since <= one.began < until]


def percentile_ms(results: Iterable[Result], percent: float) -> float:
    """Of what was answered, streams apart, whose length is the replica's; 0: nothing was."""
    took = sorted(one.took_s for one in results if one.ok and one.kind not in STREAMED)
    return 1000 * took[min(len(took) - 1, int(len(took) * percent / 100))] if took else 0.0


def latencies(results: Sequence[Result], faults: Sequence[tuple[float, str]]) -> list[str]:
    """A line for each span. ``faults``: since when, and what."""
    begins = [(float("-inf"), BEFORE), *faults]
    ends = [*(since for since, _ in faults), float("inf")]
    lines = []
    for (since, name), until in zip(begins, ends, strict=True):
        found = during(results, since, until)
        p50, p99 = percentile_ms(found, 50), percentile_ms(found, 99)
        lines.append(f"{len(found):6} requests, p50 {p50:6.1f} ms, p99 {p99:6.1f} ms: {name}")
    return lines
