"""Load report metrics: the load that replicas report themselves (ORCA), each with its age."""

from collections.abc import Iterable

from routing.contract.telemetry import ReplicaCounters
from routing.master.admin.exposition import Exposition, Labels


def load_report_metrics(out: Exposition, replicas: Iterable[tuple[Labels, ReplicaCounters]]) -> None:
    """``replicas``: the workers' reports, added up."""
    replicas = list(replicas)
    told = [(labels, replica.reported) for labels, replica in replicas if replica.reported is not None]
    figures = [
        ("running", "Requests that the replica processes, from all clients, as it reports."),
        ("waiting", "Requests in the replica's own queue, as it reports."),
        ("kv_share", "Share of the replica's KV cache in use, 0 to 1, as it reports."),
    ]
    for field, help_text in figures:
        samples = [(labels, value) for labels, load in told if (value := getattr(load, field)) is not None]
        out.family(f"switchyard_replica_reported_{field}", "gauge", help_text, samples)
    ages = [(labels, load.age_s) for labels, load in told]
    help_text = "Age of the replica's last load report."
    out.family("switchyard_replica_reported_age_seconds", "gauge", help_text, ages)
    elsewhere = [(labels, replica.elsewhere) for labels, replica in replicas]
    help_text = "Requests at the replica that did not come through this proxy, from its load reports."
    out.family("switchyard_replica_elsewhere", "gauge", help_text, elsewhere)
