"""Queue metrics: each fleet's queue on ``/metrics``. Queued and refused requests are counted by fleet."""

from collections.abc import Iterable

from routing.contract.table import FleetSnapshot
from routing.contract.telemetry import FleetCounters
from routing.master.admin.exposition import Exposition, LabelPairs


def queue_metrics(
    out: Exposition, snapshots: Iterable[FleetSnapshot], fleets: Iterable[FleetCounters]
) -> None:
    """``fleets``: the workers' reports, added up."""
    named: list[tuple[LabelPairs, FleetCounters]] = [((("fleet", fleet.name),), fleet) for fleet in fleets]
    sizes: list[tuple[LabelPairs, int]] = [
        ((("fleet", snapshot.name),), snapshot.policy.queue.size) for snapshot in snapshots
    ]
    waiting = [(labels, fleet.waiting) for labels, fleet in named]
    out.family("switchyard_queue_waiting", "gauge", "Requests waiting in the queue.", waiting)
    out.family(
        "switchyard_queue_size", "gauge", "Size of the queue: requests that may wait at this proxy.", sizes
    )
    oldest = [(labels, fleet.oldest_wait_s) for labels, fleet in named]
    help_text = "Wait of the oldest request in the queue."
    out.family("switchyard_queue_oldest_wait_seconds", "gauge", help_text, oldest)
    out.histogram(
        "switchyard_queue_wait_duration_seconds",
        "Time in the queue of requests that got a slot.",
        [(labels, fleet.waited) for labels, fleet in named],
    )
