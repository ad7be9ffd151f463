"""Cross-checks between a fleet file's replicas and the accelerators that they share.

As :mod:`routing.contract.fleet_file.cross_checks`, works on the unvalidated file and skips values of a
wrong type, which are reported elsewhere.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from routing.contract.accelerators import MemoryClaim, find_overcommit
from routing.contract.field_rules import FieldProblem, Problems, did_you_mean, enough, listed, shortened
from routing.contract.fleet_file.raw_entries import RawEntry, entries_of, texts_of
from routing.contract.fleet_file.rules import ACCELERATOR
from routing.contract.table import AcceleratorSpec

NEEDS_DEVICE = ("memory_bytes", "request_bytes", "request_bytes_per_work")


def device_problems(
    devices: list[RawEntry],
    fleets: list[RawEntry],
    other_devices: Collection[AcceleratorSpec],
    held_elsewhere: Collection[MemoryClaim],
) -> Problems:
    """Every problem between devices and replicas. ``held_elsewhere``: by fleets that are not in the file."""
    problems: Problems = []
    named = {device.name for device in other_devices} | set(texts_of(devices, "name"))
    replicas = [(fleet, part) for fleet in fleets for part in entries_of(fleet, "replicas")]
    for _, part in replicas:
        _known_devices(part, named, problems)
        problems += without_a_device(part[1], part[0])
    held: dict[str, list[MemoryClaim]] = {}
    for one in held_elsewhere:
        held.setdefault(one.accelerator, []).append(one)
    pointers: dict[tuple[str, str], str] = {}
    for fleet, part in replicas:
        for one in _held(fleet, part):
            held.setdefault(one.accelerator, []).append(one)
            pointers.setdefault((one.fleet, one.replica), part[0])
    known = {device.name: device for device in other_devices} | dict(_readable(devices))
    places = {fields.get("name"): pointer for pointer, fields in devices}
    for device in known.values():
        found = find_overcommit(device, held.get(device.name, ()))
        if found is not None:
            at = pointers.get((found.held.fleet, found.held.replica))
            # Not of this file: then the device is too small for what is on it already.
            where = f"{at}/{found.field}" if at else f"{places.get(device.name, '')}/memory_bytes"
            problems.append(FieldProblem(where, found.message))
    return problems


def without_a_device(fields: Mapping[str, Any], at: str = "") -> Problems:
    """Amounts of memory of a replica that names no accelerator."""
    if fields.get("accelerators"):
        return []
    message = 'has no effect without "accelerators": name the devices that the replica runs on, or remove it'
    return [FieldProblem(f"{at}/{key}", message, at_key=True) for key in NEEDS_DEVICE if fields.get(key)]


def _known_devices(replica: RawEntry, known: Collection[str], problems: Problems) -> None:
    pointer, fields = replica
    names = fields.get("accelerators")
    seen = set()
    for index, name in enumerate(names if isinstance(names, list) else []):
        if not isinstance(name, str) or enough(problems):
            continue
        at = f"{pointer}/accelerators/{index}"
        if name in seen:
            problems.append(
                FieldProblem(at, f'the accelerator "{shortened(name)}" is listed twice: remove one')
            )
        elif name not in known:
            there = f"; known: {listed(known)}" if known else ""
            hint = did_you_mean(name, known) or f"{there}; add it to the accelerators list"
            problems.append(FieldProblem(at, f'unknown accelerator "{shortened(name)}"{hint}'))
        seen.add(name)


def _readable(devices: list[RawEntry]) -> Iterator[tuple[str, AcceleratorSpec]]:
    for _, fields in devices:
        reported_elsewhere: Problems = []
        valid = ACCELERATOR.read_fields(fields, "", reported_elsewhere)
        if not reported_elsewhere:
            device = msgspec.convert(valid, AcceleratorSpec)
            yield device.name, device


def _held(fleet: RawEntry, replica: RawEntry) -> Iterator[MemoryClaim]:
    fields = replica[1]
    names = fields.get("accelerators")
    # Twice in the list is reported, and would say that it holds twice as much.
    for name in dict.fromkeys(filter(_is_text, names if isinstance(names, list) else [])):
        yield MemoryClaim(
            accelerator=name,
            fleet=str(fleet[1].get("name")),
            replica=str(fields.get("name")),
            memory_bytes=_amount(fields.get("memory_bytes")),
            request_bytes=_amount(fields.get("request_bytes")),
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _amount(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
