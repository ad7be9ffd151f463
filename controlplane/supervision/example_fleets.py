"""Example fleets: registered on the first start; later starts leave them as the operator set them."""

from collections.abc import Container
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from redis.exceptions import RedisError

from controlplane.models import Fleet, HardwareClass, Replica, ReplicaHealth
from controlplane.publishing import publisher
from controlplane.publishing.installation import NotOurRedis
from controlplane.services import fleet_files, health
from controlplane.supervision.environment import PROJECT
from controlplane.supervision.options import UpOptions
from controlplane.supervision.programs import DIGITS, TINY_LLM, example_program
from routing.contract import fleet_file
from routing.contract.fleet_file.structs import FleetEntry, FleetFile

FILE = PROJECT / "examples" / "fleets.yaml"
ACTOR = "up"
JUST_STARTED = "its process has just been started"


def register(options: UpOptions) -> list[str]:
    """Apply those fleets of FILE that do not exist yet; returns their names."""
    file = fleet_file.load(FILE)
    known = set(Fleet.objects.values_list("name", flat=True))
    missing = [at_ports(entry, options) for entry in file.fleets if entry.name not in known]
    if missing:
        classes = set(HardwareClass.objects.values_list("name", flat=True))
        hardware = [entry for entry in file.hardware if entry.name not in classes]
        # There is nobody to be asked about hosts that they share, and the servers are those of this start.
        fleet_files.apply(FleetFile(hardware=hardware, fleets=missing), ACTOR, confirm_all=True)
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
    return [
        f"{row.fleet.name}/{row.name}"
        for row in example_rows(options)
        if urlsplit(row.url).port != expected[row.fleet.name, row.name]
    ]


def forget_health(options: UpOptions, running: Container[str] = ()) -> None:
    """Set health back to ``checking``: earlier probe results are of processes of an earlier start.

    Without this, traffic would go to replicas that are still loading until probes notice. ``running``: the
    programs of an earlier start that go on; of these the results hold.
    """
    started = [
        row for row in example_rows(options) if example_program(row.fleet.name, row.name) not in running
    ]
    stale = [row for row in started if row.health.state != ReplicaHealth.State.CHECKING]
    health.record_transitions(
        health.Transition(row.pk, row.health.state, ReplicaHealth.State.CHECKING, JUST_STARTED, False)
        for row in stale
    )
    # If Redis is away, the conductor publishes it later; what it refuses, it says.
    with suppress(RedisError, NotOurRedis):
        publisher.publish_all()


def example_rows(options: UpOptions) -> list[Replica]:
    """The registered replicas that this start runs."""
    names = expected_ports(options)
    rows = Replica.objects.filter(fleet__name__in={fleet for fleet, _ in names})
    return [row for row in rows.select_related("fleet", "health") if (row.fleet.name, row.name) in names]
