"""Metrics of the bounds that hold for whoever sends: memory for bodies, and what ended at a bound."""

from collections import Counter

from routing.contract.telemetry import GAVE_WAY, WorkerReport
from routing.master.admin.exposition import Exposition, LabelPairs


def bound_metrics(
    out: Exposition, retired: Counter[str], reports: dict[int, WorkerReport], leaving: list[WorkerReport]
) -> None:
    """``retired``: counts of workers that have ended. ``reports``: of the present workers, by number.
    ``leaving``: of those that only finish their requests."""
    for name, help_text, field in (
        ("body_memory_bytes", "Bytes of request bodies that the worker holds.", "body_bytes"),
        ("max_body_memory_bytes", "Bytes of request bodies that the worker may hold.", "max_body_bytes"),
    ):
        samples: list[tuple[LabelPairs, float]] = [
            ((("worker", str(number)),), getattr(report, field)) for number, report in reports.items()
        ]
        out.family(f"switchyard_worker_{name}", "gauge", help_text, samples)
    sums = Counter(retired)
    for report in [*reports.values(), *leaving]:
        sums.update(report.gave_way)
    counts: list[tuple[LabelPairs, float]] = [((("reason", reason),), sums[reason]) for reason in GAVE_WAY]
    help_text = "Requests and connections that were ended, or were not begun, at a bound for whoever sends."
    out.family("switchyard_gave_way_total", "counter", help_text, counts)
