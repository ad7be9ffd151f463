"""Load report metrics: the load that replicas report themselves (ORCA), each with its age."""

from collections.abc import Iterable

from routing.contract.telemetry import ReplicaCounters
from routing.master.admin.exposition import Exposition, Labels


def load_report_metrics(out: Exposition, replicas: Iterable[tuple[Labels, ReplicaCounters]]) -> None:
    """``replicas``: the workers' reports, merged."""
    replicas = list(replicas)
    told = [(labels, replica.reported) for labels, replica in replicas if replica.reported is not None]
    figures = [
        ("running", "Requests that the replica says it works on, whoever sent them."),
        ("waiting", "Requests that the replica says wait in it."),
        ("kv_share", "Part of its KV memory that the replica says is in use, 0 to 1."),
    ]
    for field, help_text in figures:
        samples = [(labels, value) for labels, load in told if (value := getattr(load, field)) is not None]
        out.family(f"switchyard_replica_reported_{field}", "gauge", help_text, samples)
    ages = [(labels, load.age_s) for labels, load in told]
    help_text = "How long ago the replica last reported its load."
    out.family("switchyard_replica_reported_age_seconds", "gauge", help_text, ages)
    elsewhere = [(labels, replica.elsewhere) for labels, replica in replicas]
    help_text = "Requests at the replica that are not this proxy's, by what it reports."
    out.family("switchyard_replica_elsewhere", "gauge", help_text, elsewhere)
