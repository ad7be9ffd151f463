"""Rows by their names. Within a write the row is locked, where the database can."""

from collections.abc import Iterable

from controlplane.access import viewer
from controlplane.models import Accelerator, Fleet, HardwareClass, Replica
from controlplane.services.errors import NotFound
from controlplane.services.validation import unknown_name


def fleet_named(name: str, *, lock: bool = False) -> Fleet:
    rows = Fleet.objects.select_for_update() if lock else Fleet.objects.all()
    fleet = rows.filter(name=name).first()
    if fleet is None:
        seen = viewer.seen_fleets()
        known = Fleet.objects.values_list("name", flat=True) if seen is None else seen
        raise NotFound(no_such_fleet(name, known))
    return fleet


def no_such_fleet(name: str, known: Iterable[str]) -> str:
    """A sentence that names what may have been meant of the ``known`` ones."""
    return _sentence(unknown_name("fleet", name, known))


def replica_named(fleet: Fleet, name: str, *, lock: bool = False) -> Replica:
    rows = Replica.objects.select_related("hardware", "health", "owner__source").filter(
        fleet=fleet, name=name
    )
    if lock:
        rows = rows.select_for_update(of=("self",))
    replica = rows.first()
    if replica is None:
        known = Replica.objects.filter(fleet=fleet).values_list("name", flat=True)
        raise NotFound(_sentence(f"in fleet {fleet.name} {unknown_name('replica', name, known)}"))
    replica.fleet = fleet
    return replica


def hardware_named(name: str, *, lock: bool = False) -> HardwareClass:
    rows = HardwareClass.objects.select_for_update() if lock else HardwareClass.objects.all()
    hardware = rows.filter(name=name).first()
    if hardware is None:
        known = HardwareClass.objects.values_list("name", flat=True)
        raise NotFound(_sentence(unknown_name("hardware class", name, known)))
    return hardware


def accelerator_named(name: str, *, lock: bool = False) -> Accelerator:
    rows = Accelerator.objects.select_for_update() if lock else Accelerator.objects.all()
    accelerator = rows.filter(name=name).first()
    if accelerator is None:
        known = Accelerator.objects.values_list("name", flat=True)
        raise NotFound(_sentence(unknown_name("accelerator", name, known)))
    return accelerator


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}{'' if words.endswith(('?', '.')) else '.'}"
