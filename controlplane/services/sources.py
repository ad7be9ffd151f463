"""Discovery sources: made, changed, paused and deleted. :mod:`controlplane.discovery` follows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlplane.models import DiscoverySource, DiscoverySourceStatus, Event, Fleet, SourceState
from controlplane.services import effective_settings
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.lookup import fleet_named
from controlplane.services.replicas import problems_beside
from controlplane.services.unit_of_work import UnitOfWork, check_version, edit_conflict, unit_of_work
from controlplane.services.validation import accepted, immutable, unknown_name
from routing.contract.defaults import without_defaults
from routing.contract.field_rules import FieldProblem
from routing.contract.fleet_file.sources import source_rules
from routing.contract.fleet_file.sources.source_structs import SourceEntry

_NAME_STAYS = "a source's name cannot change: make a new one, then delete this one"
_PAUSED = "paused: its replicas stay as they are"
_NOT_LISTED = "not listed yet"


@dataclass(frozen=True, slots=True)
class SourceChange:
    row: DiscoverySource
    lines: list[str]
    """What changed, one line each; empty: everything already was as asked for."""


def create(fleet_name: str, settings: Mapping[str, Any], actor: str) -> SourceChange:
    """Raises NotFound, Invalid, Conflict."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name)
        kept = checked(fleet, settings)
        name = kept["name"]
        if DiscoverySource.objects.filter(fleet=fleet, name=name).exists():
            words = (
                f"Fleet {fleet.name} has a source {name} already: choose another name, or change that one."
            )
            raise Conflict(words, [FieldError("/name", words)])
        if DiscoverySource.objects.filter(fleet=fleet).count() >= source_rules.MOST_SOURCES:
            most = source_rules.MOST_SOURCES
            raise Conflict(f"Fleet {fleet.name} has {most} sources, and can have no more: delete one first.")
        _insert(write, fleet, kept)
    return SourceChange(source_named(fleet, name), ["created"])


def update(
    fleet_name: str, name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None
) -> SourceChange:
    """A JSON merge patch (RFC 7396). Raises NotFound, Invalid, PreconditionFailed, Conflict."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name)
        row = source_named(fleet, name, lock=True)
        check_version(f"Source {row}", row.edit_version, if_version)
        given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
        kept = checked(
            fleet,
            {**effective_settings.merged(row.settings, given), "name": name},
            [*immutable(given, ["name"], _NAME_STAYS), *other_kind(row, given)],
        )
        lines = _put(write, fleet, row, kept)
    return SourceChange(source_named(fleet, name), lines)


def delete(fleet_name: str, name: str, actor: str, *, if_version: int | None = None) -> None:
    """Its replicas stay, and are people's from then on. Raises NotFound, PreconditionFailed."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name)
        row = source_named(fleet, name, lock=True)
        check_version(f"Source {row}", row.edit_version, if_version)
        _remove(write, fleet, row)


def apply(write: UnitOfWork, fleet: Fleet, entries: list[SourceEntry]) -> list[str]:
    """Has the fleet just these sources, as a fleet file says. What changed, one line each. Raises Invalid."""
    rows = {row.name: row for row in DiscoverySource.objects.select_for_update().filter(fleet=fleet)}
    lines = []
    for index, entry in enumerate(entries):
        row = rows.pop(entry.name, None)
        kept = checked(fleet, without_defaults(entry), at=f"/sources/{index}")
        if row is not None and row.kind == source_rules.kind_of(kept):
            row.fleet = fleet
            lines += [f"source {entry.name}: {line}" for line in _put(write, fleet, row, kept)]
            continue
        if row is not None:
            words = f"source {entry.name} is of kind {row.kind}: give one of another kind another name"
            accepted(({}, [FieldProblem(f"/sources/{index}", words)]))
        _insert(write, fleet, kept)
        lines.append(f"source {entry.name}: created")
    for row in rows.values():
        row.fleet = fleet
        number = _remove(write, fleet, row)
        theirs = f"; {number} of its replicas are people's now" if number else ""
        lines.append(f"source {row.name}: deleted{theirs}")
    return lines


def entries() -> dict[int, list[SourceEntry]]:
    """Those of every fleet, by its key, as a fleet file has them."""
    found: dict[int, list[SourceEntry]] = {}
    for row in DiscoverySource.objects.order_by("fleet_id", "name"):
        found.setdefault(row.fleet_id, []).append(source_rules.entry(row.name, row.settings))
    return found


def source_named(fleet: Fleet, name: str, *, lock: bool = False) -> DiscoverySource:
    """Raises NotFound."""
    rows = DiscoverySource.objects.select_related("status").filter(fleet=fleet, name=name)
    if lock:
        rows = rows.select_for_update(of=("self",))
    row = rows.first()
    if row is None:
        known = DiscoverySource.objects.filter(fleet=fleet).values_list("name", flat=True)
        raise NotFound(f"In fleet {fleet.name} {unknown_name('source', name, known)}".rstrip("?.") + ".")
    row.fleet = fleet
    return row


def checked(
    fleet: Fleet, settings: Mapping[str, Any], more: list[FieldProblem] | None = None, *, at: str = ""
) -> dict[str, Any]:
    """A whole source's settings as they are kept, its name included. Raises Invalid."""
    replica = settings.get("replica")
    beside = (
        problems_beside(replica, f"{at}/replica", adapters=fleet.adapters)
        if isinstance(replica, Mapping)
        else []
    )
    return accepted(source_rules.check_source(settings, at), [*(more or ()), *beside])


def other_kind(row: DiscoverySource, given: Mapping[str, Any]) -> list[FieldProblem]:
    """A source stays of its kind."""
    words = f"is another kind than {row.kind}: make a new source for it, then delete this one"
    others = source_rules.KINDS.keys() - {row.kind}
    return [FieldProblem(f"/{name}", words) for name in given if name in others]


def _insert(write: UnitOfWork, fleet: Fleet, kept: Mapping[str, Any]) -> None:
    settings = {key: value for key, value in kept.items() if key != "name"}
    kind = source_rules.kind_of(settings)
    row = DiscoverySource.objects.create(fleet=fleet, name=kept["name"], kind=kind, settings=settings)
    state, reason = _begins(settings)
    DiscoverySourceStatus.objects.create(source=row, state=state, reason=reason)
    write.audit("sources.create", str(row), after=settings)
    write.event(Event.Kind.ADMIN, f"{write.actor} made source {row.name} ({kind})", fleet=fleet)


def _put(write: UnitOfWork, fleet: Fleet, row: DiscoverySource, kept: Mapping[str, Any]) -> list[str]:
    """Saves whole settings. What changed; nothing: nothing is written. Raises Conflict."""
    settings = {key: value for key, value in kept.items() if key != "name"}
    before, after = source_rules.effective(row.settings), source_rules.effective(settings)
    lines = effective_settings.differences(before, after)
    if not lines:
        return []
    same = DiscoverySource.objects.filter(pk=row.pk, edit_version=row.edit_version)
    if not same.update(settings=settings, edit_version=F("edit_version") + 1, updated_at=timezone.now()):
        raise edit_conflict(f"source {row}")
    write.audit("sources.update", str(row), row.settings, settings)
    others = effective_settings.differences({**before, "paused": after["paused"]}, after)
    if before["paused"] != after["paused"]:
        _pause(write, fleet, row, settings)
    if others:
        text = f"{write.actor} changed source {row.name}: {'; '.join(others)}"
        write.event(Event.Kind.ADMIN, text, fleet=fleet)
    return lines


def _pause(write: UnitOfWork, fleet: Fleet, row: DiscoverySource, settings: Mapping[str, Any]) -> None:
    """Or follows it again. Whoever follows it now writes nothing more: the fencing token is another."""
    state, reason = _begins(settings)
    DiscoverySourceStatus.objects.filter(source=row).update(
        state=state, reason=reason, since=timezone.now(), frozen_since=None, follower=F("follower") + 1
    )
    number = row.owned.count()
    stay = f"; {number} of its replicas stay as they are" if number else ""
    does = f"paused source {row.name}{stay}" if settings.get("paused") else f"resumed source {row.name}"
    text = f"{write.actor} {does}"
    write.event(Event.Kind.ADMIN, text, fleet=fleet)


def _begins(settings: Mapping[str, Any]) -> tuple[SourceState, str]:
    if settings.get("paused"):
        return SourceState.PAUSED, _PAUSED
    return SourceState.WAITING, _NOT_LISTED


def _remove(write: UnitOfWork, fleet: Fleet, row: DiscoverySource) -> int:
    """How many replicas are left, and are people's from now on."""
    number = row.owned.count()
    write.audit("sources.delete", str(row), row.settings)
    row.delete()
    stay = f"; its {number} replicas stay" if number else ""
    write.event(Event.Kind.ADMIN, f"{write.actor} deleted source {row.name}{stay}", fleet=fleet)
    return number
