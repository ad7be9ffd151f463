"""Exporters of hosts: made, changed and deleted. :mod:`controlplane.exporters` reads them."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F

from controlplane.models import Event, Exporter
from controlplane.services import effective_settings
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.exporter_rules import check_exporter
from controlplane.services.unit_of_work import check_version, edit_conflict, unit_of_work
from controlplane.services.validation import accepted, immutable, unknown_name

_NAME_STAYS = "an exporter's name cannot change: make a new one, then delete this one"


def create(settings: Mapping[str, Any], actor: str) -> Exporter:
    """Raises Invalid, Conflict."""
    with unit_of_work(actor) as write:
        kept = accepted(check_exporter(settings))
        if Exporter.objects.filter(name=kept["name"]).exists():
            words = f"There is an exporter {kept['name']} already: choose another name, or change that one."
            raise Conflict(words, [FieldError("/name", words)])
        row = Exporter.objects.create(**kept)
        write.audit("exporters.create", row.name, after=described(row))
        write.event(Event.Kind.ADMIN, f"{actor} made exporter {row.name} of host {row.host}")
        return row


def update(
    name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None
) -> tuple[Exporter, list[str]]:
    """The row, and what changed, one line each. Raises NotFound, Invalid, PreconditionFailed, Conflict."""
    with unit_of_work(actor) as write:
        row = exporter_named(name, lock=True)
        check_version(f"Exporter {name}", row.edit_version, if_version)
        given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
        kept = accepted(check_exporter(given, partial=True), immutable(given, ["name"], _NAME_STAYS))
        before = described(row)
        after = before | kept
        lines = effective_settings.differences(before, after)
        if lines:
            same = Exporter.objects.filter(pk=row.pk, edit_version=row.edit_version)
            if not same.update(**after, edit_version=F("edit_version") + 1):
                raise edit_conflict(f"exporter {name}")
            row.refresh_from_db()
            write.audit("exporters.update", name, before, after)
            write.event(Event.Kind.ADMIN, f"{actor} changed exporter {name}: {'; '.join(lines)}")
        return row, lines


def delete(name: str, actor: str, *, if_version: int | None = None) -> None:
    """Raises NotFound, PreconditionFailed."""
    with unit_of_work(actor) as write:
        row = exporter_named(name, lock=True)
        check_version(f"Exporter {name}", row.edit_version, if_version)
        write.audit("exporters.delete", name, described(row))
        write.event(Event.Kind.ADMIN, f"{actor} deleted exporter {name} of host {row.host}")
        row.delete()


def described(row: Exporter) -> dict[str, Any]:
    """The row as audit entries keep it."""
    return {"host": row.host, "url": row.url}


def exporter_named(name: str, *, lock: bool = False) -> Exporter:
    """Raises NotFound."""
    rows = Exporter.objects.select_for_update() if lock else Exporter.objects.all()
    row = rows.filter(name=name).first()
    if row is None:
        known = Exporter.objects.values_list("name", flat=True)
        words = unknown_name("exporter", name, known)
        raise NotFound(f"{words[0].upper()}{words[1:]}".rstrip("?.") + ".")
    return row
