"""Discovery sources: made, changed and deleted. :mod:`controlplane.discovery` follows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlplane.models import DiscoverySource, DiscoverySourceStatus, Event, Fleet
from controlplane.services import effective_settings, source_rules
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.lookup import fleet_named
from controlplane.services.replicas import problems_beside
from controlplane.services.unit_of_work import check_version, edit_conflict, unit_of_work
from controlplane.services.validation import accepted, immutable, unknown_name
from routing.contract.field_rules import FieldProblem

_NAME_STAYS = "a source's name cannot change: make a new one, then delete this one"


@dataclass(frozen=True, slots=True)
class SourceChange:
    row: DiscoverySource
    lines: list[str]
    """What changed, one line each; empty: everything already was as asked for."""


def create(fleet_name: str, settings: Mapping[str, Any], actor: str) -> SourceChange:
    """Raises NotFound, Invalid, Conflict."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name)
        kept = _checked(fleet, settings)
        name = kept.pop("name")
        if DiscoverySource.objects.filter(fleet=fleet, name=name).exists():
            words = (
                f"Fleet {fleet.name} has a source {name} already: choose another name, or change that one."
            )
            raise Conflict(words, [FieldError("/name", words)])
        kind = source_rules.kind_of(kept)
        row = DiscoverySource.objects.create(fleet=fleet, name=name, kind=kind, settings=kept)
        DiscoverySourceStatus.objects.create(source=row)
        write.audit("sources.create", str(row), after=kept)
        write.event(Event.Kind.ADMIN, f"{actor} made source {name} ({kind})", fleet=fleet)
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
        kept = _checked(
            fleet,
            {**effective_settings.merged(row.settings, given), "name": name},
            [*immutable(given, ["name"], _NAME_STAYS), *_other_kind(row, given)],
        )
        del kept["name"]
        lines = effective_settings.differences(row.settings, kept)
        if lines:
            same = DiscoverySource.objects.filter(pk=row.pk, edit_version=row.edit_version)
            if not same.update(settings=kept, edit_version=F("edit_version") + 1, updated_at=timezone.now()):
                raise edit_conflict(f"source {row}")
            write.audit("sources.update", str(row), row.settings, kept)
            text = f"{actor} changed source {name}: {'; '.join(lines)}"
            write.event(Event.Kind.ADMIN, text, fleet=fleet)
    return SourceChange(source_named(fleet, name), lines)


def delete(fleet_name: str, name: str, actor: str, *, if_version: int | None = None) -> None:
    """Its replicas stay, and are people's from then on. Raises NotFound, PreconditionFailed."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name)
        row = source_named(fleet, name, lock=True)
        check_version(f"Source {row}", row.edit_version, if_version)
        number = row.owned.count()
        write.audit("sources.delete", str(row), row.settings)
        row.delete()
        stay = f"; its {number} replicas stay" if number else ""
        write.event(Event.Kind.ADMIN, f"{actor} deleted source {name}{stay}", fleet=fleet)


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


def _checked(
    fleet: Fleet, settings: Mapping[str, Any], more: list[FieldProblem] | None = None
) -> dict[str, Any]:
    replica = settings.get("replica")
    beside = (
        problems_beside(replica, "/replica", adapters=fleet.adapters) if isinstance(replica, Mapping) else []
    )
    return accepted(source_rules.check_source(settings), [*(more or ()), *beside])


def _other_kind(row: DiscoverySource, given: Mapping[str, Any]) -> list[FieldProblem]:
    words = f"is another kind than {row.kind}: make a new source for it, then delete this one"
    others = source_rules.KINDS.keys() - {row.kind}
    return [FieldProblem(f"/{name}", words) for name in given if name in others]
