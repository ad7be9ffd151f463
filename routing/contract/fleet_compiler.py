"""Compiler from fleet file to routing table, for a proxy that runs from a file alone. Pure."""

import uuid
from collections.abc import Mapping

from routing.contract.copied_settings import COPIED
from routing.contract.fleet_file.structs import FleetEntry, FleetFile, ReplicaEntry
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec

_NAMESPACE = uuid.UUID("3d1f2c4e-7a50-5c0b-9d55-6b1f5a0c9e21")


def replica_uid(fleet: str, replica: str) -> str:
    """The uid of a replica that comes from a file: the same names give the same uid (UUIDv5)."""
    return str(uuid.uuid5(_NAMESPACE, f"{fleet}/{replica}"))


def compile_fleet_file(
    file: FleetFile, *, epoch: int = 1, version: int = 1
) -> tuple[Manifest, list[FleetSnapshot]]:
    """The table that a fleet file describes; manifest and snapshots all carry ``(epoch, version)``.

    Nobody probes, so health is ``ready``, source ``assumed``. ``file`` is a checked one: a hardware
    class that is not in it raises KeyError.
    """
    weights = {entry.name: entry.weight for entry in file.hardware}
    snapshots = [_snapshot(fleet, weights, epoch, version) for fleet in file.fleets]
    manifest = Manifest(
        epoch=epoch,
        version=version,
        fleets={fleet.name: version for fleet in file.fleets},
        default=next((fleet.name for fleet in file.fleets if fleet.default), None),
        aliases={alias: fleet.name for fleet in file.fleets for alias in fleet.aliases},
        adapters={adapter: fleet.name for fleet in file.fleets for adapter in fleet.adapters},
        matches={fleet.name: fleet.match for fleet in file.fleets if fleet.match},
        accelerators=file.accelerators,
    )
    return manifest, snapshots


def _snapshot(fleet: FleetEntry, weights: Mapping[str, float], epoch: int, version: int) -> FleetSnapshot:
    return FleetSnapshot(
        epoch=epoch,
        version=version,
        revision=version,
        name=fleet.name,
        protocol=fleet.protocol,
        aliases=fleet.aliases,
        adapters=fleet.adapters,
        served_model=fleet.served_model,
        expose=fleet.expose,
        policy=fleet.policy,
        probe=fleet.probe,
        tls=fleet.tls,
        replicas=[_replica(fleet, replica, weights) for replica in fleet.replicas],
    )


def _replica(fleet: FleetEntry, entry: ReplicaEntry, weights: Mapping[str, float]) -> ReplicaSpec:
    weight = entry.weight
    if weight is None:
        weight = weights[entry.hardware] if entry.hardware else 1.0
    return ReplicaSpec(
        uid=replica_uid(fleet.name, entry.name),
        weight=weight,
        hardware=entry.hardware,
        admin_state=entry.admin_state or "active",
        move=entry.move is True,
        health="ready",
        health_source="assumed",
        accelerators=entry.accelerators,
        credential=entry.credential or fleet.credential,
        **{name: getattr(entry, name) for name in COPIED},
    )
