"""Replica metrics: admin state, health and eligibility (state sets), and the load that they report (ORCA).

State sets: each replica has one series for each state, 1 for its present state. So the number of series is
bounded by the replicas, and a query names a state instead of a number.
"""

from collections.abc import Collection, Iterable
from typing import get_args

from routing.contract.table import AdminState, FleetSnapshot, Health, ReplicaSpec
from routing.contract.telemetry import FleetCounters, ReplicaCounters
from routing.master.admin.exposition import Exposition, LabelPairs

ReplicaKey = tuple[str, str]
"""Fleet and replica."""


def replica_metrics(
    out: Exposition,
    snapshots: Iterable[FleetSnapshot],
    drained: Collection[ReplicaKey],
    fleets: Iterable[FleetCounters],
) -> None:
    """``drained``: replicas with an emergency drain. ``fleets``: the workers' reports, added up."""
    replicas = [(snapshot.name, spec) for snapshot in snapshots for spec in snapshot.replicas]
    ejected = {
        (fleet.name, replica.uid)
        for fleet in fleets
        for replica in fleet.replicas
        if replica.ejected_for_s is not None or replica.no_credential
    }
    out.family(
        "switchyard_replica_health",
        "gauge",
        "1 for the replica's health as seen by probes, 0 for the other states.",
        [
            ((*_labels(fleet, spec), ("state", state)), int(spec.health == state))
            for fleet, spec in replicas
            for state in get_args(Health)
        ],
    )
    out.family(
        "switchyard_replica_admin_state",
        "gauge",
        "1 for the replica's admin state, 0 for the other states.",
        [
            ((*_labels(fleet, spec), ("state", state)), int(_admin_state(fleet, spec, drained) == state))
            for fleet, spec in replicas
            for state in get_args(AdminState)
        ],
    )
    out.family(
        "switchyard_replica_eligible",
        "gauge",
        "1 while admin state, health, ejection and weight all allow new requests.",
        [
            (
                _labels(fleet, spec),
                int(
                    _admin_state(fleet, spec, drained) == "active"
                    and spec.health == "ready"
                    and spec.weight > 0
                    and (fleet, spec.uid) not in ejected
                ),
            )
            for fleet, spec in replicas
        ],
    )


def load_report_metrics(out: Exposition, replicas: Iterable[tuple[LabelPairs, ReplicaCounters]]) -> None:
    """The load that replicas report themselves (ORCA), each with its age. ``replicas``: the workers' reports,
    added up."""
    replicas = list(replicas)
    reported = [(labels, replica.reported) for labels, replica in replicas if replica.reported is not None]
    figures = [
        ("running", "Requests that the replica processes, from all clients, as it reports."),
        ("waiting", "Requests in the replica's own queue, as it reports."),
        ("kv_share", "Share of the replica's KV cache in use, 0 to 1, as it reports."),
    ]
    for field, help_text in figures:
        samples = [
            (labels, value) for labels, load in reported if (value := getattr(load, field)) is not None
        ]
        out.family(f"switchyard_replica_reported_{field}", "gauge", help_text, samples)
    ages = [(labels, load.age_s) for labels, load in reported]
    help_text = "Age of the replica's last load report."
    out.family("switchyard_replica_reported_age_seconds", "gauge", help_text, ages)
    elsewhere = [(labels, replica.elsewhere) for labels, replica in replicas]
    help_text = "Requests at the replica that did not come through this proxy, from its load reports."
    out.family("switchyard_replica_elsewhere", "gauge", help_text, elsewhere)


def _labels(fleet: str, spec: ReplicaSpec) -> LabelPairs:
    return (("fleet", fleet), ("replica", spec.name))


def _admin_state(fleet: str, spec: ReplicaSpec, drained: Collection[ReplicaKey]) -> AdminState:
    return "draining" if spec.admin_state == "active" and (fleet, spec.name) in drained else spec.admin_state
