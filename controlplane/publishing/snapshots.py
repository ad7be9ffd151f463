"""Snapshots of the routing table: rows → messages for proxies. A fixed number of queries, whatever the size.

A version is always read *before* what it stands for: a write in between makes the message newer than
it says, and the message of that write follows. The other way round, old content could pass for new.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.models import Accelerator, ClientKey, Fleet, Replica, TableState
from routing.contract.client_keys import ALL_FLEETS
from routing.contract.copied_settings import COPIED
from routing.contract.defaults import with_defaults
from routing.contract.policy import Policy
from routing.contract.probe import Probe
from routing.contract.startup import expected_duration, usual_duration
from routing.contract.table import (
    FleetSnapshot,
    KeyLimits,
    Manifest,
    Match,
    ReplicaSpec,
    Tls,
    Version,
)


class TableVersions(NamedTuple):
    """What the database says the newest table is."""

    epoch: int
    manifest: int
    fleets: Mapping[str, int]
    """Fleet name → version of its snapshot."""

    @property
    def manifest_version(self) -> Version:
        return Version(self.epoch, self.manifest)

    def fleet_version(self, name: str) -> Version:
        return Version(self.epoch, self.fleets[name])


def current_versions(state: TableState | None = None) -> TableVersions:
    """Two queries; one where ``state`` has just been read."""
    state = state or current_state()
    return TableVersions(
        state.epoch, state.manifest_version, dict(Fleet.objects.values_list("name", "table_version"))
    )


def current_state() -> TableState:
    """The one row; as good as its defaults while nothing has been written."""
    return TableState.objects.order_by("pk").first() or TableState()


def fleet_versions(epoch: int) -> dict[int, tuple[int, int]]:
    """``(epoch, table version)`` of each fleet, in the order of their names. A fleet's grows with every write
    that shows in its table: while it is the same, so are its rows. Read versions before rows, and what is
    written in between is read again."""
    found = Fleet.objects.order_by("name").values_list("pk", "table_version")
    return {pk: (epoch, version) for pk, version in found}


def snapshots_of(fleet_ids: Iterable[int] | None = None) -> list[FleetSnapshot]:
    """Snapshots of these fleets, or of all (None). Four queries."""
    state = current_state()
    rows = Fleet.objects.all() if fleet_ids is None else Fleet.objects.filter(pk__in=set(fleet_ids))
    fleets = list(rows)
    replicas: dict[int, list[ReplicaSpec]] = {fleet.pk: [] for fleet in fleets}
    devices = _devices_of(list(replicas))
    for fleet_id, of_fleet in groupby(_replica_rows(list(replicas)), lambda row: row["fleet_id"]):
        found = list(of_fleet)
        usual = usual_duration(row["health__startup_s"] for row in found)
        replicas[fleet_id] = [
            _replica_spec(row, expected_duration(row["health__startup_s"], usual), devices.get(row["pk"], []))
            for row in found
        ]
    return [_snapshot(fleet, state, replicas[fleet.pk]) for fleet in fleets]


def _snapshot(fleet: Fleet, state: TableState, replicas: list[ReplicaSpec]) -> FleetSnapshot:
    return FleetSnapshot(
        epoch=state.epoch,
        installation=state.installation,
        version=fleet.table_version,
        revision=fleet.revision,
        name=fleet.name,
        protocol=fleet.protocol,  # type: ignore[arg-type]  # the column's choices are the literal's
        aliases=list(fleet.aliases),
        adapters=list(fleet.adapters),
        served_model=fleet.served_model,
        expose=fleet.expose,
        policy=with_defaults(fleet.policy, Policy),
        probe=with_defaults(fleet.probe, Probe),
        tls=with_defaults(fleet.tls, Tls),
        replicas=[
            one if one.credential or not fleet.credential else replace(one, credential=fleet.credential)
            for one in replicas
        ],
    )


def _replica_rows(fleet_ids: list[int]) -> Iterable[dict[str, Any]]:
    """Plain values: for 200 replicas a third of the time that model objects take."""
    rows = Replica.objects.filter(fleet_id__in=fleet_ids).order_by("fleet_id", "name")
    found: Iterable[dict[str, Any]] = rows.values(
        *("pk", "fleet_id", "uid", "weight", "credential", "admin_state", "move"),
        *("hardware__name", "hardware__weight"),
        *("health__state", "health__has_passed", "health__startup_s"),
        *COPIED,
    )
    return found


def _devices_of(fleet_ids: list[int]) -> dict[int, list[str]]:
    """Replica → sorted names of the accelerators that it runs on; those that run on none are missing."""
    links = Replica.accelerators.through.objects.filter(replica__fleet_id__in=fleet_ids)
    found: dict[int, list[str]] = {}
    for pk, name in links.order_by("accelerator__name").values_list("replica_id", "accelerator__name"):
        found.setdefault(pk, []).append(name)
    return found


def _replica_spec(row: Mapping[str, Any], startup_s: float | None, accelerators: list[str]) -> ReplicaSpec:
    """``startup_s``: how long its start is expected to take."""
    weight = row["weight"] if row["weight"] is not None else row["hardware__weight"]
    return ReplicaSpec(
        uid=str(row["uid"]),
        weight=1.0 if weight is None else weight,
        hardware=row["hardware__name"] or "",
        admin_state=row["admin_state"],
        move=row["move"],
        health=row["health__state"] or "checking",
        health_source="probe",
        has_passed=bool(row["health__has_passed"]),
        startup_s=startup_s,
        accelerators=accelerators,
        credential=row["credential"],
        **{name: row[name] for name in COPIED},
    )


def manifest() -> Manifest:
    """Four queries, six where there are client keys. A fleet's version in it is the one at the time; its
    snapshot may be newer already."""
    state = current_state()
    columns = ("name", "table_version", "aliases", "adapters", "is_default", "match")
    fleets = list(Fleet.objects.order_by("name").values_list(*columns))
    keys = list(ClientKey.objects.filter(revoked_at=None).order_by("pk"))
    opened = _opened_fleets() if keys else {}
    # Read anew: the first key, and its salt with it, may have come since.
    salts = current_state() if keys else TableState()
    return Manifest(
        epoch=state.epoch,
        version=state.manifest_version,
        fleets={name: version for name, version, *_ in fleets},
        default=next((name for name, *_, is_default, _ in fleets if is_default), None),
        aliases={alias: name for name, _, aliases, *_ in fleets for alias in aliases},
        adapters={adapter: name for name, _, _, adapters, *_ in fleets for adapter in adapters},
        matches={name: msgspec.convert(match, list[Match]) for name, *_, match in fleets if match},
        accelerators=[row.spec for row in Accelerator.objects.order_by("name")],
        key_hashes={key.key_hash: [ALL_FLEETS] if key.all_fleets else opened.get(key.pk, []) for key in keys},
        keys_required=state.keys_required,
        key_limits={key.key_hash: _limits(key) for key in keys},
        key_salt=salts.key_salt,
        former_salt=salts.former_salt,
        installation=state.installation,
        succeeded=list(state.succeeded),
    )


def _opened_fleets() -> dict[int, list[str]]:
    """Valid client key → names of the fleets that it may use. Without ``prefetch_related``, which takes
    seconds for ten thousand keys, at each write that touches the manifest."""
    links = ClientKey.fleets.through.objects.filter(clientkey__revoked_at=None)
    found: dict[int, list[str]] = {}
    for pk, name in links.order_by("fleet__name").values_list("clientkey_id", "fleet__name"):
        found.setdefault(pk, []).append(name)
    return found


def _limits(key: ClientKey) -> KeyLimits:
    """Also of a key without any: under this id it is counted."""
    return KeyLimits(
        id=str(key.pk),
        priority=key.priority,  # type: ignore[arg-type]  # the column's choices are the literal's
        weight=key.weight,
        requests_per_minute=key.requests_per_minute,
        max_concurrency=key.max_concurrency,
        tokens_per_minute=key.tokens_per_minute,
    )
