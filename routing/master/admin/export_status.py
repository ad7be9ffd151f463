"""Export status: how the export of traces is, on ``/status`` and as metrics."""

from typing import Any, Literal, NamedTuple

from routing.master.admin.exposition import Exposition

ExportState = Literal["waiting", "up", "failing"]


class ExportStatus(NamedTuple):
    """Of one proxy. Counts are of spans but for ``over_limit``, which is of traces."""

    endpoint: str
    state: ExportState
    """``waiting``: nothing was posted yet; ``up``, ``failing``: as the last batch was."""
    problem: str
    """Why it is failing."""
    for_s: float
    """Since when the state is as it is, in seconds."""
    exported: int
    waiting: int
    dropped: dict[str, int]
    """By where there was no room, or who did not take them."""
    over_limit: int


def export_row(status: ExportStatus | None) -> dict[str, Any] | None:
    """For ``/status``."""
    if status is None:
        return None
    return {**status._asdict(), "for_s": round(status.for_s, 1)}


def export_metrics(out: Exposition, status: ExportStatus | None) -> None:
    if status is None:
        return
    out.family(
        "switchyard_trace_receiver_up",
        "gauge",
        "1 while the receiver of traces takes them; only where traces are exported.",
        [((), int(status.state == "up"))],
    )
    out.family(
        "switchyard_spans_exported_total",
        "counter",
        "Spans that the receiver of traces has taken.",
        [((), status.exported)],
    )
    out.family(
        "switchyard_spans_waiting",
        "gauge",
        "Spans that wait to be exported.",
        [((), status.waiting)],
    )
    out.family(
        "switchyard_spans_dropped_total",
        "counter",
        "Spans that were not exported, by where they were dropped: worker, queue, receiver, end.",
        [((("where", where),), count) for where, count in status.dropped.items()],
    )
    out.family(
        "switchyard_traces_over_limit_total",
        "counter",
        "Traces that were to be recorded and were not, because there were too many in a second.",
        [((), status.over_limit)],
    )
