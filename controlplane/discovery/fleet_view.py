"""Fleet view: a fleet's replicas as one source sees them, read again only when its table has changed."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec
import redis

from controlplane.discovery.listing import OwnReplica
from controlplane.models import Fleet, Replica, ReplicaHealth
from controlplane.services.fleet_files import replica_entry
from controlplane.telemetry.frames import fleet_key
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.fleet_file import ReplicaEntry

FRESH_S = 5.0
"""An older frame says nothing about now."""


class OwnRow(NamedTuple):
    """One own replica as it was read."""

    pk: int
    edit_version: int
    entry: ReplicaEntry
    ready: bool
    gone: bool
    active: bool
    missing_since: datetime | None
    drained_at: datetime | None


class FleetView(NamedTuple):
    table_version: int
    own: Mapping[str, OwnRow]
    others: frozenset[str]

    @property
    def is_draining(self) -> bool:
        return any(row.drained_at is not None for row in self.own.values())

    def own_replicas(self, at_rest: frozenset[str], now: datetime) -> dict[str, OwnReplica]:
        """``at_rest``: names of those where nothing is in flight, and nothing new comes."""
        return {
            name: OwnReplica(
                entry=row.entry,
                ready=row.ready,
                gone=row.gone,
                active=row.active,
                drained_by_source_s=(now - row.drained_at).total_seconds() if row.drained_at else None,
                safe_to_stop=name in at_rest,
            )
            for name, row in self.own.items()
        }


def read(fleet_id: int, source_id: int, known: FleetView | None) -> FleetView | None:
    """``known``: the last one, which is returned where nothing has changed. ``None``: the fleet is gone."""
    version = Fleet.objects.filter(pk=fleet_id).values_list("table_version", flat=True).first()
    if version is None or (known is not None and known.table_version == version):
        return known if version is not None else None
    theirs = Replica.objects.filter(fleet_id=fleet_id).exclude(owner__source_id=source_id)
    rows = Replica.objects.filter(fleet_id=fleet_id, owner__source_id=source_id)
    rows = rows.select_related("hardware", "health", "owner").prefetch_related("accelerators")
    return FleetView(
        version, {row.name: _own(row) for row in rows}, frozenset(theirs.values_list("name", flat=True))
    )


def _own(row: Replica) -> OwnRow:
    state = row.health.state
    return OwnRow(
        pk=row.pk,
        edit_version=row.edit_version,
        entry=replica_entry(row),
        ready=state == ReplicaHealth.State.READY,
        gone=state == ReplicaHealth.State.DOWN or not row.health.has_passed,
        active=row.admin_state == Replica.AdminStateChoice.ACTIVE,
        missing_since=row.owner.missing_since,
        drained_at=row.owner.drained_at,
    )


class _Replica(msgspec.Struct):
    name: str
    admin_state: str
    in_flight: int


class _Frame(msgspec.Struct):
    at: float
    workers: int
    workers_current: int
    replicas: list[_Replica]


def at_rest(client: "redis.Redis", fleet_name: str) -> frozenset[str]:
    """Names of replicas that are taken out, in every proxy worker, and have nothing in flight."""
    try:
        frame = msgspec.json.decode(client.get(fleet_key(fleet_name)) or b"", type=_Frame)
    except (*DECODE_ERRORS, redis.RedisError):
        return frozenset()
    if time.time() - frame.at > FRESH_S or not frame.workers_current == frame.workers > 0:
        return frozenset()
    resting = (one for one in frame.replicas if one.admin_state != "active" and one.in_flight == 0)
    return frozenset(one.name for one in resting)
