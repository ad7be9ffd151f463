"""Hardware classes: the weights that replicas take from what they run on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, QuerySet

from controlplane.models import Event, Fleet, HardwareClass
from controlplane.services import dropping, effective_settings
from controlplane.services.errors import Conflict, FieldError
from controlplane.services.lookup import hardware_named
from controlplane.services.unit_of_work import (
    UnitOfWork,
    check_version,
    edit_conflict,
    table_state,
    unit_of_work,
)
from controlplane.services.validation import accepted, immutable
from routing.contract.fleet_file.rules import check_hardware
from routing.contract.table import Version

_NAME_STAYS = (
    "a hardware class's name cannot change, because replicas and fleet files refer to it: make a new one, "
    "give it to the replicas, then delete this one"
)


@dataclass(frozen=True, slots=True)
class HardwareChange:
    hardware: HardwareClass
    lines: Sequence[str]
    """What changed, one line each; empty: everything already was as asked for."""
    versions: Mapping[str, Version]
    """Fleets whose replicas take their weight from the class → version of the snapshot that shows it."""
    unit_of_work: UnitOfWork

    @property
    def published(self) -> bool:
        """Whether Redis holds the change; without fleets there is nothing to send."""
        return self.unit_of_work.published is not False


def create(settings: Mapping[str, Any], actor: str) -> HardwareClass:
    """Raises Invalid, Conflict."""
    with unit_of_work(actor) as write:
        return insert(write, accepted(check_hardware(settings)))


def insert(write: UnitOfWork, kept: Mapping[str, Any]) -> HardwareClass:
    if HardwareClass.objects.filter(name=kept["name"]).exists():
        words = (
            f"There is a hardware class {kept['name']} already: choose another name, or change that one "
            f"at /api/v1/hardware-classes/{kept['name']}."
        )
        raise Conflict(words, [FieldError("/name", words)])
    hardware = HardwareClass.objects.create(name=kept["name"], weight=kept.get("weight", 1.0))
    write.audit("hardware.create", hardware.name, after={"weight": hardware.weight})
    return hardware


def update(
    name: str,
    changes: Mapping[str, Any],
    actor: str,
    *,
    if_version: int | None = None,
    confirm: str = "",
) -> HardwareChange:
    """A new weight reaches every replica of the class that has none of its own. It is the class's, so that
    no fleet's policy gets a revision by it. Raises NotFound, Invalid, Stale, Conflict, and NeedsConfirmation
    for a weight of 0 that takes most of what serves out; ``confirm``: its token."""
    with unit_of_work(actor) as write, dropping.confirmed(confirm):
        hardware = hardware_named(name, lock=True)
        check_version(f"Hardware class {name}", hardware.edit_version, if_version)
        given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
        elsewhere = immutable(given, ["name"], _NAME_STAYS)
        kept = accepted(check_hardware(given, partial=True), elsewhere)
        lines = put(write, hardware, kept)
        epoch = table_state().epoch
        fleets = _affected(hardware).order_by("name").values_list("name", "table_version")
        versions = {name: Version(epoch, version) for name, version in fleets}
        return HardwareChange(hardware, lines, versions, write)


def put(write: UnitOfWork, hardware: HardwareClass, kept: Mapping[str, Any]) -> list[str]:
    """Saves checked settings. Returns what changed; nothing: nothing is written."""
    before = {"weight": hardware.weight}
    after = {"weight": kept.get("weight", hardware.weight)}
    lines = effective_settings.differences(before, after, f"{hardware.name}.")
    if not lines:
        return []
    changed = HardwareClass.objects.filter(pk=hardware.pk, edit_version=hardware.edit_version).update(
        **after, edit_version=F("edit_version") + 1
    )
    if not changed:
        raise edit_conflict(f"hardware class {hardware.name}")
    hardware.refresh_from_db()
    write.audit("hardware.update", hardware.name, before, after)
    _write_fleet_events(write, hardware, lines)
    return lines


def _write_fleet_events(write: UnitOfWork, hardware: HardwareClass, lines: list[str]) -> None:
    affected = _affected(hardware)
    for fleet in affected:
        text = f"{write.actor} changed hardware class {'; '.join(lines)}"
        write.event(Event.Kind.POLICY, text, fleet=fleet)
    write.bump_tables(*(fleet.pk for fleet in affected))


def _affected(hardware: HardwareClass) -> QuerySet[Fleet]:
    """Fleets with replicas that take their weight from the class."""
    return Fleet.objects.filter(replicas__hardware=hardware, replicas__weight__isnull=True).distinct()


def delete(name: str, actor: str, *, if_version: int | None = None) -> None:
    """Raises NotFound, Stale, and Conflict while replicas are of this class."""
    with unit_of_work(actor) as write:
        hardware = hardware_named(name, lock=True)
        check_version(f"Hardware class {name}", hardware.edit_version, if_version)
        users = [str(replica) for replica in hardware.replicas.select_related("fleet")[:6]]
        if users:
            more = " and others" if len(users) > 5 else ""
            raise Conflict(
                f"Hardware class {name} is in use by {', '.join(users[:5])}{more}: give them another class, "
                "or null, first."
            )
        hardware.delete()
        write.audit("hardware.delete", name, {"weight": hardware.weight})
