"""A comparison as a table for people."""

from collections.abc import Sequence

from routing.simulator.results import Result

_HEAD = ("strategy", "p50 ms", "p95 ms", "p99 ms", "mean ms", "not answered")


def table(results: Sequence[Result]) -> str:
    """One row a strategy, latencies in milliseconds."""
    rows = [_HEAD, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(_cell(row, column, widths[column]) for column in range(len(_HEAD))) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cell(row: Sequence[str], column: int, width: int) -> str:
    return row[column].rjust(width) if column else row[column].ljust(width)


def _row(result: Result) -> tuple[str, ...]:
    times = (result.quantile(0.50), result.quantile(0.95), result.quantile(0.99), result.mean_s)
    lost = result.not_answered
    share = f"{lost} ({lost / len(result.requests):.2%})" if lost else "0"
    return (result.strategy, *(f"{seconds * 1000:.1f}" for seconds in times), share)
