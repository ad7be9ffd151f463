"""Trial of a fleet's changed settings: would the replicas that serve now still pass their probes with them?

A mistyped credential, CA or probe takes a whole fleet out within seconds, because it fails at every replica.
So what would do that is confirmed at the write, as any other write that takes out most of what serves.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from controlplane.models import Fleet, Replica, ReplicaHealth
from controlplane.probes import trial_probe, trial_service
from controlplane.services import fleets
from controlplane.services.dropping import Drop, ServingReplica, counted, serving
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import check_version
from routing.contract.defaults import without_defaults
from routing.contract.fleet_file import FleetEntry, FleetFile

TRIED = ("protocol", "served_model", "credential", "probe", "tls")
"""What decides how a replica is probed, and what it is sent."""

FleetSettings = Mapping[str, Any]
Lost = dict[Replica, str]
"""Replicas that would fail their probes, and why."""


def refuse_lockout(
    name: str, changes: Mapping[str, Any], *, if_version: int | None = None, confirm: str = ""
) -> None:
    """Before :func:`fleets.update`, with the same ``changes``: nothing is written.

    Up to MOST_TRIED ready replicas are tried with the new settings, in at most 5 s; those that fail with the
    ones of now too, in 5 s more. Raises NeedsConfirmation where most of them pass with the old settings
    only, and ``confirm`` is not the token of exactly this change and loss; else, where any of TRIED changes,
    as ``update`` before it writes.
    """
    if not changes.keys() & set(TRIED):
        return
    fleet = fleet_named(name)
    check_version(f"Fleet {name}", fleet.edit_version, if_version)
    kept = fleets.checked_changes(fleet, changes)
    after = {field: kept.get(field, getattr(fleet, field)) for field in TRIED}
    own = {row.name: row.credential for row in fleet.replicas.all()}
    _confirm({name: (after, _lost(fleet, after, own))}, confirm)


def refuse_lockout_by_file(file: FleetFile, *, confirm: str = "") -> None:
    """The same before a fleet file is applied, for each of its fleets that is there already."""
    found = {}
    for entry in file.fleets:
        fleet = Fleet.objects.filter(name=entry.name).first()
        if fleet is not None:
            own = {replica.name: replica.credential or "" for replica in entry.replicas}
            after = _settings_of(entry)
            found[entry.name] = (after, _lost(fleet, after, own))
    _confirm(found, confirm)


def _settings_of(entry: FleetEntry) -> FleetSettings:
    return {
        "protocol": entry.protocol,
        "served_model": entry.served_model,
        "credential": entry.credential,
        "probe": without_defaults(entry.probe),
        "tls": without_defaults(entry.tls),
    }


def _lost(fleet: Fleet, after: FleetSettings, own: Mapping[str, str]) -> Lost:
    """Ready replicas that pass with the settings of now and would not ``after``; empty: at most half.
    ``own``: credential of each replica then, by its name; those that are not named go anyway."""
    before = {field: getattr(fleet, field) for field in TRIED}
    rows = [row for row in _ready(fleet) if row.name in own]
    if after == before and all(own[row.name] == row.credential for row in rows):
        return {}
    tried = _failing(fleet, {row: own[row.name] for row in rows}, after)
    if 2 * len(tried) <= len(rows):
        return {}
    failing_now = _failing(fleet, {row: row.credential for row in tried}, before)
    lost = {row: words for row, words in tried.items() if row not in failing_now}
    return lost if 2 * len(lost) > len(rows) else {}


def _ready(fleet: Fleet) -> list[Replica]:
    rows = fleet.replicas.filter(
        admin_state=Replica.AdminStateChoice.ACTIVE, health__state=ReplicaHealth.State.READY
    )
    return list(rows.order_by("name")[: trial_service.MOST_TRIED])


def _failing(fleet: Fleet, rows: Mapping[Replica, str], settings: FleetSettings) -> Lost:
    """Of these replicas, with these credentials of their own."""
    subjects = [
        trial_service.subject(
            {
                **settings,
                "model": settings["served_model"] or fleet.name,
                "url": row.url,
                "credential": credential or settings["credential"],
            },
            None,
        )
        for row, credential in rows.items()
    ]
    found = trial_probe.run_all(subjects) if subjects else []
    return {row: one.words for row, one in zip(rows, found, strict=True) if one.outcome != "ready"}


def _confirm(found: Mapping[str, tuple[FleetSettings, Lost]], token: str) -> None:
    """``found``: fleet's name → its settings then, and what is lost by them. Raises NeedsConfirmation."""
    lost = {name: each for name, (_, each) in found.items() if each}
    if not lost:
        return
    now = Counter(one.fleet for one in counted(serving(), lost))
    drop = Drop(
        lost=sorted(ServingReplica(name, row.name, row.url) for name, rows in lost.items() for row in rows),
        before=now.total(),
        fleets=sorted(name for name, rows in lost.items() if len(rows) == now[name]),
        left={name: now[name] - len(rows) for name, rows in lost.items()},
        by=json.dumps({name: found[name][0] for name in lost}, sort_keys=True),
    )
    replica, words = next(one for rows in lost.values() for one in rows.items())
    drop.refuse_unless(token, f"With these settings their probes fail; {replica.name}: {words}.")
