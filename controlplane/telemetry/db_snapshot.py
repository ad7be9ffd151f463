"""Database snapshot: the desired state, read once a second for the frames."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controlplane.models import Accelerator, ClientKey, Fleet, Replica, TableState
from routing.contract.accelerators import usable_bytes
from routing.contract.defaults import with_defaults
from routing.contract.policy import Locality, Policy, Queue, Serves


class AcceleratorPlacement(NamedTuple):
    """A replica on one accelerator, as far as its requests lease memory there."""

    accelerator: str
    request_bytes: int
    request_bytes_per_work: float


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica as operators and probes left it."""

    id: int
    uid: str
    name: str
    weight: float
    max_concurrency: int | None
    """The replica's own, else the policy's."""
    admin_state: str
    health: str
    health_reason: str
    health_for_s: float
    """Since it entered this health."""
    starting: bool = True
    """While it is not ready: whether it has been starting since then, as far as probes could see."""
    startup_s: float | None = None
    """How long its last start took."""
    site: str = ""
    """At which it is; empty: near to every proxy."""
    adapters: list[str] | None = None
    """Those of its fleet's that it serves; ``None``: all."""
    placed: list[AcceleratorPlacement] = field(default_factory=list)
    """By accelerator."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    id: int
    name: str
    protocol: str
    aliases: list[str]
    adapters: list[str]
    strategy: str
    revision: int
    version: str
    """``epoch:version`` of the newest snapshot."""
    replicas: list[ReplicaRow] = field(default_factory=list)
    queue: Queue = field(default_factory=Queue)
    locality: Locality = field(default_factory=Locality)
    serves: Serves = "auto"
    """What the policy says of how replicas serve."""
    has_expose: bool = True
    """Whether it says what its clients may reach; older fleets do not."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One client key in force."""

    id: int
    name: str
    limits: dict[str, int | None] = field(default_factory=dict)
    """By the names of :class:`routing.contract.table.KeyLimits`."""


@dataclass(frozen=True, slots=True)
class AcceleratorRow:
    """One device, and what replicas of all fleets hold on it."""

    name: str
    memory_bytes: int
    usable_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class DbSnapshot:
    manifest: str
    """``epoch:version``."""
    fleets: list[FleetRow]
    """By name; replicas by name within."""
    keys: list[KeyRow] = field(default_factory=list)
    """By name."""
    accelerators: list[AcceleratorRow] = field(default_factory=list)
    """By name."""


def read() -> DbSnapshot:
    """Five queries, six where there are accelerators, however many fleets. Raises django.db.Error."""
    table = TableState.objects.order_by("id").values_list("epoch", "manifest_version").first()
    epoch, manifest_version = table or (1, 1)
    now = time.time()
    fleets: dict[int, tuple[FleetRow, Policy]] = {}
    for fleet in Fleet.objects.order_by("name"):
        policy = with_defaults(fleet.policy, Policy)
        row = FleetRow(
            id=fleet.pk,
            name=fleet.name,
            protocol=fleet.protocol,
            aliases=list(fleet.aliases),
            adapters=list(fleet.adapters),
            strategy=policy.strategy,
            revision=fleet.revision,
            version=f"{epoch}:{fleet.table_version}",
            has_expose=fleet.expose is not None,
            queue=policy.queue,
            locality=policy.locality,
            serves=policy.serves,
        )
        fleets[fleet.pk] = (row, policy)
    replicas = _replicas(now)
    accelerators = _accelerators(replica for _, replica in replicas)
    for fleet_id, replica in replicas:
        if fleet_id in fleets:  # else created between the two queries
            row, policy = fleets[fleet_id]
            limit = replica.max_concurrency
            row.replicas.append(
                replica if limit is not None else _with_limit(replica, policy.max_concurrency)
            )
    ordered = [row for row, _ in fleets.values()]
    return DbSnapshot(f"{epoch}:{manifest_version}", ordered, _keys(), accelerators)


def _keys() -> list[KeyRow]:
    names = ("requests_per_minute", "max_concurrency", "tokens_per_minute")
    in_force = ClientKey.objects.filter(revoked_at=None).order_by("name")
    return [
        KeyRow(pk, name, dict(zip(names, limits, strict=True)))
        for pk, name, *limits in in_force.values_list("id", "name", *names)
    ]


def _replicas(now: float) -> list[tuple[int, ReplicaRow]]:
    values = Replica.objects.order_by("fleet_id", "name").values_list(
        "fleet_id",
        "id",
        "uid",
        "name",
        "weight",
        "hardware__weight",
        "max_concurrency",
        "site",
        "adapters",
        "admin_state",
        "health__state",
        "health__reason",
        "health__since",
        "health__starting",
        "health__startup_s",
    )
    found = []
    for row in values:
        fleet_id, pk, uid, name, own, hardware, limit, site, adapters, admin = row[:10]
        health, reason, since, starting, startup_s = row[10:]
        weight = own if own is not None else hardware if hardware is not None else 1.0
        found.append(
            (
                fleet_id,
                ReplicaRow(
                    id=pk,
                    uid=str(uid),
                    name=name,
                    weight=weight,
                    max_concurrency=limit,
                    admin_state=admin,
                    health=health or "checking",
                    health_reason=reason or "",
                    health_for_s=now - since.timestamp() if since else 0.0,
                    starting=starting is not False,
                    startup_s=startup_s,
                    site=site,
                    adapters=adapters,
                ),
            )
        )
    return found


def _accelerators(replicas: Iterable[ReplicaRow]) -> list[AcceleratorRow]:
    """Every device; tells the replicas on it."""
    devices = list(Accelerator.objects.order_by("name"))
    held = dict.fromkeys((device.name for device in devices), 0)
    rows = {replica.id: replica for replica in replicas} if devices else {}
    links = Replica.accelerators.through.objects.order_by("accelerator__name").values_list(
        *("accelerator__name", "replica_id", "replica__memory_bytes"),
        *("replica__request_bytes", "replica__request_bytes_per_work"),
    )
    for name, replica_id, memory, fixed, per_work in links if devices else ():
        if name in held and replica_id in rows:  # else made between the queries
            held[name] += memory or 0
            rows[replica_id].placed.append(AcceleratorPlacement(name, fixed, per_work))
    return [
        AcceleratorRow(device.name, device.memory_bytes, usable_bytes(device.spec), held[device.name])
        for device in devices
    ]


def _with_limit(replica: ReplicaRow, limit: int | None) -> ReplicaRow:
    return replace(replica, max_concurrency=limit) if limit is not None else replica
