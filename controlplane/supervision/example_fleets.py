"""Registers the example fleets on their first start; later starts leave to the operator what they are."""

from urllib.parse import urlsplit

import msgspec

from controlplane.models import Fleet, HardwareClass, Replica
from controlplane.services import fleet_files
from controlplane.supervision.environment import PROJECT
from controlplane.supervision.options import UpOptions
from controlplane.supervision.programs import DIGITS, TINY_LLM
from routing.contract import fleet_file
from routing.contract.fleet_file_structs import FleetEntry, FleetFile

FILE = PROJECT / "examples" / "fleets.yaml"
ACTOR = "up"


def register(options: UpOptions) -> list[str]:
    """Apply those fleets of FILE that do not exist yet; returns their names."""
    file = fleet_file.load(FILE)
    known = set(Fleet.objects.values_list("name", flat=True))
    missing = [at_ports(entry, options) for entry in file.fleets if entry.name not in known]
    if missing:
        classes = set(HardwareClass.objects.values_list("name", flat=True))
        hardware = [entry for entry in file.hardware if entry.name not in classes]
        fleet_files.apply(FleetFile(hardware=hardware, fleets=missing), ACTOR)
    return [entry.name for entry in missing]


def at_ports(entry: FleetEntry, options: UpOptions) -> FleetEntry:
    """The fleet with its replicas where this start runs them."""
    replicas = [
        msgspec.structs.replace(replica, url=f"http://127.0.0.1:{port}")
        for replica in entry.replicas
        if (port := expected_ports(options).get((entry.name, replica.name)))
    ]
    return msgspec.structs.replace(entry, replicas=replicas)


def expected_ports(options: UpOptions) -> dict[tuple[str, str], int]:
    """(fleet, replica) → port, of what ``up`` starts."""
    return {(r.fleet, r.name): options.examples_port + r.offset for r in TINY_LLM + DIGITS}


def registered_elsewhere(options: UpOptions) -> list[str]:
    """Example replicas whose registered URL is not where this start runs them, as ``fleet/replica``."""
    expected = expected_ports(options)
    rows = Replica.objects.filter(fleet__name__in={fleet for fleet, _ in expected}).select_related("fleet")
    return [
        f"{row.fleet.name}/{row.name}"
        for row in rows
        if (port := expected.get((row.fleet.name, row.name))) and urlsplit(row.url).port != port
    ]
