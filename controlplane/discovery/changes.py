"""Changes of a plan, carried out in short transactions through the services, as the source's doing.

Each transaction first looks whether this process still follows the source (a fencing token), and leaves out
replicas that somebody has written since the plan was made: the next step sees them as they are.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from controlplane.access import viewer
from controlplane.access.grants import Access, Grant
from controlplane.access.roles import Role
from controlplane.discovery.fleet_view import FleetView, OwnRow
from controlplane.discovery.listing import Plan
from controlplane.models import DiscoverySource, DiscoverySourceStatus, Event, Fleet, Replica, ReplicaOwner
from controlplane.services import fleet_files, replicas
from controlplane.services.errors import NotFound, ServiceError
from controlplane.services.lookup import fleet_named, replica_named
from controlplane.services.unit_of_work import UnitOfWork, unit_of_work
from controlplane.services.validation import refuse
from routing.contract.fleet_file import ReplicaEntry
from routing.contract.fleet_file.sources.source_rules import PEOPLES_FIELDS

MOST_AT_ONCE = 100
LONGEST_S = 0.25
"""Of one transaction, for which all other writes wait; then the next one goes on."""

_ACTIVE, _DRAINING = Replica.AdminStateChoice.ACTIVE, Replica.AdminStateChoice.DRAINING


class NotFollowing(Exception):
    """Another process follows the source by now, or the source is deleted."""


class Follower(NamedTuple):
    """Who carries out a source's plans."""

    source: DiscoverySource
    token: int


class _Change(NamedTuple):
    name: str
    step: "_Step"
    entry: ReplicaEntry | None = None


def take_over(source: DiscoverySource) -> Follower:
    """From now on nobody else follows it. Raises NotFollowing where it is deleted."""
    with unit_of_work(actor(source)):
        status = _status(source)
        status.follower += 1
        status.save(update_fields=["follower"])
        return Follower(source, status.follower)


def actor(source: DiscoverySource) -> str:
    return f"source {source.name}"


def carry_out(follower: Follower, plan: Plan, view: FleetView, now: datetime) -> dict[str, str]:
    """Name → why it could not be done, in words for whoever may see the fleet: they name no other team's.
    Raises NotFollowing."""
    fleet = Fleet.objects.filter(pk=follower.source.fleet_id).first()
    if fleet is None:
        raise NotFollowing
    with viewer.viewer_scope(Access((Grant(Role.ADMINISTER, fleet.labels),))):
        return _carried_out(follower, plan, view, now)


def _carried_out(follower: Follower, plan: Plan, view: FleetView, now: datetime) -> dict[str, str]:
    refused: dict[str, str] = {}
    changes = _changes(plan)
    done = 0
    while done < len(changes):
        batch = changes[done : done + MOST_AT_ONCE]
        try:
            done += _transaction(follower, batch, view, now)
        except ServiceError:
            done += len(batch)
            for change in batch:
                try:
                    _transaction(follower, [change], view, now)
                except ServiceError as error:
                    refused[change.name] = error.detail
    return refused


def check(follower: Follower) -> None:
    """Inside a transaction: whether it still follows the source. Raises NotFollowing."""
    if _status(follower.source).follower != follower.token:
        raise NotFollowing


def _status(source: DiscoverySource) -> DiscoverySourceStatus:
    status = DiscoverySourceStatus.objects.select_for_update().filter(source_id=source.pk).first()
    if status is None:
        raise NotFollowing
    return status


def _transaction(follower: Follower, changes: list[_Change], view: FleetView, now: datetime) -> int:
    """How many it has carried out: as many as LONGEST_S lets it."""
    ends = time.monotonic() + LONGEST_S
    with unit_of_work(actor(follower.source)) as write:
        check(follower)
        at = _Transaction(write, fleet_named(follower.source.fleet.name, lock=True), follower.source, now)
        for number, change in enumerate(changes, start=1):
            if change.name not in view.own:
                _add(at, _entry(change))
            elif (row := _unchanged(at.fleet, view.own[change.name])) is not None:
                change.step(at, row, change)
            if time.monotonic() > ends:
                return number
    return len(changes)


class _Transaction(NamedTuple):
    write: UnitOfWork
    fleet: Fleet
    source: DiscoverySource
    now: datetime


_Step = Callable[[_Transaction, Replica, _Change], None]


def _changes(plan: Plan) -> list[_Change]:
    return [
        *(_Change(entry.name, _put, entry) for entry in (*plan.add, *plan.change)),
        *(_Change(name, _resume) for name in sorted(plan.resume)),
        *(_Change(name, _drain) for name in sorted(plan.drain)),
        *(_Change(name, _remove) for name in sorted(plan.remove)),
    ]


def _entry(change: _Change) -> ReplicaEntry:
    assert change.entry is not None
    return change.entry


def _unchanged(fleet: Fleet, known: OwnRow) -> Replica | None:
    """An own replica, unless somebody has written it since, or it is no longer the source's."""
    try:
        row = replica_named(fleet, known.entry.name, lock=True)
    except NotFound:
        return None
    same = (row.pk, row.edit_version) == (known.pk, known.edit_version)
    return row if same and hasattr(row, "owner") else None


def _add(at: _Transaction, entry: ReplicaEntry) -> None:
    settings = {name: value for name, value in msgspec.to_builtins(entry).items() if value not in (None, "")}
    refuse(replicas.problems_beside(settings, adapters=at.fleet.adapters))
    replica = replicas.insert(at.write, at.fleet, settings)
    ReplicaOwner.objects.create(replica=replica, source=at.source)
    at.write.bump_tables(at.fleet.pk)
    text = f"{at.write.actor} registered replica {replica.name} at {replica.url}"
    at.write.event(Event.Kind.ADMIN, text, fleet=at.fleet, replica=replica, state="checking")


def _put(at: _Transaction, row: Replica, change: _Change) -> None:
    wanted, there = msgspec.to_builtins(_entry(change)), msgspec.to_builtins(fleet_files.replica_entry(row))
    settings = {
        name: value for name, value in wanted.items() if name not in PEOPLES_FIELDS and value != there[name]
    }
    refuse(replicas.problems_beside(settings, adapters=at.fleet.adapters))
    replicas.put_row(at.write, at.fleet, row, settings)


def _drain(at: _Transaction, row: Replica, change: _Change) -> None:
    was_active = row.admin_state == _ACTIVE
    ReplicaOwner.objects.filter(replica=row).update(drained_at=at.now, reactivates=was_active)
    if was_active:
        replicas.put_row(at.write, at.fleet, row, {"admin_state": _DRAINING})
    at.write.bump_tables(at.fleet.pk)


def _resume(at: _Transaction, row: Replica, change: _Change) -> None:
    """It is active again if it was when it was drained, and nobody has put it into maintenance since."""
    again = row.owner.reactivates and row.admin_state == _DRAINING
    ReplicaOwner.objects.filter(replica=row).update(drained_at=None, reactivates=False)
    if again:
        replicas.put_row(at.write, at.fleet, row, {"admin_state": _ACTIVE})
    at.write.bump_tables(at.fleet.pk)


def _remove(at: _Transaction, row: Replica, change: _Change) -> None:
    replicas.remove(at.write, at.fleet, row)
    at.write.bump_tables(at.fleet.pk)
