"""Text table of a comparison, for the terminal: one row for each strategy."""

from collections.abc import Sequence

from routing.simulator.objectives import in_time
from routing.simulator.results import Result
from routing.simulator.token_results import cached_share, token_figures

_HEAD = ("strategy", "p50 ms", "p95 ms", "p99 ms", "mean ms", "not answered")
_TOKENS = ("p99 first token ms", "p99 ms/token", "p99 ms between tokens")


_CACHED = "prompt cached"
_DEADLINES = "deadlines met"
_FIRST_TOKENS = "first tokens in time"


def table(results: Sequence[Result]) -> str:
    """One row a strategy, latencies in milliseconds; with columns for tokens where answers had some."""
    rows: list[tuple[str, ...]] = [_HEAD, *(_row(result) for result in results)]
    tokens = [_tokens(result) for result in results]
    if any(tokens):
        rows = [row + more for row, more in zip(rows, [_TOKENS, *tokens], strict=True)]
    cached = [cached_share(result.requests) for result in results]
    if any(share is not None for share in cached):
        rows = [(*row, more) for row, more in zip(rows, [_CACHED, *map(_share, cached)], strict=True)]
    met = [in_time(result.requests, result.first_token_s) for result in results]
    for head, column in (
        (_DEADLINES, [one.deadlines_met for one in met]),
        (_FIRST_TOKENS, [one.first_tokens_in_time for one in met]),
    ):
        if any(share is not None for share in column):
            rows = [(*row, more) for row, more in zip(rows, [head, *map(_share, column)], strict=True)]
    return _aligned(rows)


def shares(results: Sequence[Result], names: Sequence[str]) -> str:
    """One row a strategy, one column a replica: its share of the requests."""
    rows = [("strategy", *names)]
    rows += [
        (result.strategy, *(f"{share:.1%}" for share in result.shares(names).values())) for result in results
    ]
    return _aligned(rows)


def _aligned(rows: list[tuple[str, ...]]) -> str:
    """The first row is the head. Columns as wide as what is in them, the first to the left."""
    columns = range(max(len(row) for row in rows))
    rows = [row + ("",) * (len(columns) - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in columns]
    lines = ["  ".join(_cell(row, column, widths[column]) for column in columns) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cell(row: Sequence[str], column: int, width: int) -> str:
    return row[column].rjust(width) if column else row[column].ljust(width)


def _row(result: Result) -> tuple[str, ...]:
    times = (result.quantile(0.50), result.quantile(0.95), result.quantile(0.99), result.mean_s)
    lost = result.not_answered
    share = f"{lost} ({lost / len(result.requests):.2%})" if lost else "0"
    return (result.strategy, *(f"{seconds * 1000:.1f}" for seconds in times), share)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _tokens(result: Result) -> tuple[str, ...]:
    figures = token_figures(result.requests)
    return () if figures is None else tuple(f"{seconds * 1000:.1f}" for seconds in figures)
