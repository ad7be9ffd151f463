"""What replicas of all fleets hold on accelerators, and refusing what does not fit there.

The sum of a device is over rows of many fleets. It is checked at the end of a write, when all of it stands
as it is to be: two replicas of one fleet file may change places. Writes come one after the other
(:func:`controlplane.services.unit_of_work.lock_writes`), so that two that fit alone
cannot slip in together.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane.access import viewer
from controlplane.models import Accelerator, Replica
from controlplane.services.errors import Conflict, FieldError
from controlplane.services.validation import unknown_name
from routing.contract.accelerators import MemoryClaim, Overcommit, find_overcommit, shown_bytes
from routing.contract.field_rules import FieldProblem, enough
from routing.contract.fleet_file.devices import without_a_device

_AMOUNTS = frozenset({"memory_bytes", "request_bytes", "request_bytes_per_work"})

Places = dict[tuple[str, str], str]
"""(fleet, replica) → JSON pointer to what was sent of it."""


def names_of(replica: Replica) -> list[str]:
    """Sorted names of the devices that it runs on."""
    return sorted(device.name for device in replica.accelerators.all())


def held(devices: Collection[str] | None = None) -> list[MemoryClaim]:
    """What replicas ask of these devices, or of all (None), in a fixed order. One query."""
    links = Replica.accelerators.through.objects.order_by("accelerator__name", "replica__fleet__name")
    if devices is not None:
        links = links.filter(accelerator__name__in=devices)
    columns = ("accelerator__name", "replica__fleet__name", "replica__name", "replica__memory_bytes")
    rows = links.order_by(*columns[:3]).values_list(*columns, "replica__request_bytes")
    return [
        MemoryClaim(device, fleet, name, memory or 0, request)
        for device, fleet, name, memory, request in rows
    ]


def in_words(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both, with amounts of memory as people write them, where that tells them apart."""
    old, new = dict(before), dict(after)
    for name in _AMOUNTS & old.keys() & new.keys():
        texts = [None if each is None else shown_bytes(each) for each in (old[name], new[name])]
        if texts[0] != texts[1]:
            old[name], new[name] = texts
    return old, new


def refuse_misfits(devices: Mapping[str, str], places: Places, more: Iterable[MemoryClaim] = ()) -> None:
    """Raises Conflict where what is held on these devices, and ``more`` of it, does not fit.

    ``devices``: name → JSON pointer to what was sent of the device itself, for when it is that which made it
    too small.
    """
    everything = [*held(devices), *more]
    # What is there already is counted first: the newcomer is what is too much.
    everything.sort(key=lambda one: (one.fleet, one.replica) in places)
    errors = []
    for device in Accelerator.objects.filter(name__in=devices).order_by("name"):
        if found := find_overcommit(device.spec, everything):
            new = (
                places.get((one.fleet, one.replica)) for one in everything if one.accelerator == device.name
            )
            pointer = _place(found, [at for at in new if at is not None], places) or devices[device.name]
            reported = find_overcommit(device.spec, _as_seen(everything, places)) or found
            errors.append(FieldError(pointer, reported.message))
    if errors:
        raise Conflict("\n".join(error.words for error in errors), errors)


def _as_seen(claims: Iterable[MemoryClaim], places: Places) -> list[MemoryClaim]:
    """The same, where those of fleets that may not be seen are one on each device, without a name. A fleet
    that is written may be seen, also before it is there."""
    seen = viewer.seen_fleets()
    written = {fleet for fleet, _ in places}
    shown: list[MemoryClaim] = []
    unseen: dict[str, MemoryClaim] = {}
    for one in claims:
        if seen is None or one.fleet in seen or one.fleet in written:
            shown.append(one)
            continue
        so_far = unseen.get(one.accelerator, MemoryClaim(one.accelerator, "", ""))
        unseen[one.accelerator] = so_far._replace(
            memory_bytes=so_far.memory_bytes + one.memory_bytes,
            request_bytes=max(so_far.request_bytes, one.request_bytes),
        )
    return [*unseen.values(), *shown]


def _place(found: Overcommit, newcomers: list[str], places: Places) -> str:
    """Where to say it: at what is too large, else at what takes its room; empty: neither was sent."""
    at = places.get((found.held.fleet, found.held.replica))
    if at is not None:
        return f"{at}/{found.field}"
    return f"{newcomers[0]}/memory_bytes" if newcomers else ""


def refuse_new(fleet: str, replicas: Mapping[str, Mapping[str, Any]]) -> None:
    """As :func:`refuse_misfits`, of checked settings that are not written yet (pointer → settings)."""
    wanted = [
        MemoryClaim(device, fleet, kept["name"], kept.get("memory_bytes") or 0, kept.get("request_bytes", 0))
        for kept in replicas.values()
        for device in kept.get("accelerators", [])
    ]
    places = {(fleet, kept["name"]): pointer for pointer, kept in replicas.items()}
    refuse_misfits({one.accelerator: "" for one in wanted}, places, wanted)


def problems(settings: Mapping[str, Any], at: str = "") -> list[FieldProblem]:
    """Of a new replica: devices that are not there or named twice, and memory on none."""
    return [*name_problems(settings, at), *without_a_device(settings, at)]


def name_problems(settings: Mapping[str, Any], at: str = "") -> list[FieldProblem]:
    """Devices that a replica names and that do not exist, or twice; reported with all other errors."""
    names = settings.get("accelerators")
    if not names or not isinstance(names, list):
        return []
    known = set(Accelerator.objects.values_list("name", flat=True))
    found: list[FieldProblem] = []
    seen: set[str] = set()
    for index, name in enumerate(names):
        if enough(found):
            break
        if not isinstance(name, str):
            continue
        pointer = f"{at}/accelerators/{index}"
        if name in seen:
            found.append(FieldProblem(pointer, f'the accelerator "{name}" is listed twice: remove one'))
        elif name not in known:
            found.append(FieldProblem(pointer, unknown_name("accelerator", name, known)))
        seen.add(name)
    return found
