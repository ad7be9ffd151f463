"""Registering replicas, changing them, taking them out and bringing them back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.utils import timezone

from controlplane.models import Accelerator, Event, Fleet, HardwareClass, Replica, ReplicaHealth
from controlplane.services import device_memory, effective_settings, owners, revisions, table_size
from controlplane.services.changes import Change, change_of
from controlplane.services.errors import Conflict, FieldError, Invalid
from controlplane.services.lookup import fleet_named, replica_named
from controlplane.services.unit_of_work import UnitOfWork, check_version, unit_of_work
from controlplane.services.validation import accepted, immutable, refuse, unknown_name
from routing.contract.field_rules import FieldProblem
from routing.contract.fleet_file.cross_checks import adapter_problems
from routing.contract.fleet_file.devices import without_a_device
from routing.contract.fleet_file.replica_rules import MOVES_WHEN_OUT, REPLICA
from routing.contract.fleet_file.rules import check_replica
from routing.contract.names import is_slug

_NAME_STAYS = (
    "a replica's name cannot change, because its history depends on it: register a new one with the same "
    "URL, then drain and remove this one"
)


@dataclass(frozen=True, slots=True)
class ReplicaChange:
    replica: Replica
    change: Change


def register(fleet_name: str, settings: Mapping[str, Any], actor: str, *, confirm: str = "") -> ReplicaChange:
    """A new replica, ``checking`` until a probe passes. Raises NotFound, Invalid, Conflict, and
    NeedsConfirmation without ``confirm``, the token for a host that fleets share by it."""
    with unit_of_work(actor, confirm) as write:
        fleet = fleet_named(fleet_name, lock=True)
        kept = accepted(check_replica(settings), problems_beside(settings, adapters=fleet.adapters))
        replica = insert(write, fleet, kept)
        write.save_fleet(fleet)
        write.event(
            Event.Kind.ADMIN,
            f"{actor} registered replica {replica.name} at {replica.url}",
            fleet=fleet,
            replica=replica,
            state="checking",
        )
        return ReplicaChange(replica, change_of(fleet, [f"{replica.name}: registered"], write))


def registrable(fleet: Fleet, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`register` would check before it writes. Raises Invalid, Conflict."""
    kept = accepted(check_replica(settings), problems_beside(settings, adapters=fleet.adapters))
    table_size.refuse_beyond(1)
    _refuse_taken(fleet, kept["name"], "")
    device_memory.refuse_new(fleet.name, {"": kept})
    return kept


def _refuse_taken(fleet: Fleet, name: str, at: str) -> None:
    if Replica.objects.filter(fleet=fleet, name=name).exists():
        words = (
            f"Fleet {fleet.name} has a replica {name} already: choose another name, or change that one "
            f"at /api/v1/fleets/{fleet.name}/replicas/{name}."
        )
        raise Conflict(words, [FieldError(f"{at}/name", words)])


def insert(write: UnitOfWork, fleet: Fleet, kept: Mapping[str, Any], at: str = "") -> Replica:
    """Adds checked settings as a row; the caller bumps the fleet's versions."""
    _refuse_taken(fleet, kept["name"], at)
    replica = Replica.objects.create(
        fleet=fleet,
        hardware=_hardware(kept.get("hardware"), at),
        **{name: _stored(name, kept[name]) for name in _COLUMNS & kept.keys()},
    )
    ReplicaHealth.objects.create(replica=replica)
    write.hosts.add(fleet.name, replica.url)
    _put_on(write, replica, kept.get("accelerators", []), at)
    write.table_grows()
    write.probe_immediately(replica)
    write.audit("replicas.register", str(replica), after=described(replica))
    return replica


def update(
    fleet_name: str,
    name: str,
    changes: Mapping[str, Any],
    actor: str,
    *,
    if_version: int | None = None,
    confirm: str = "",
) -> ReplicaChange:
    """Changes what is given; ``null`` unsets. A new weight makes a revision. Raises NotFound, Invalid,
    Stale, Conflict (also where a source says what it is), and NeedsConfirmation without ``confirm``, the
    token for a host that fleets share by it.
    """
    with unit_of_work(actor, confirm) as write:
        fleet = fleet_named(fleet_name, lock=True)
        replica = replica_named(fleet, name, lock=True)
        check_version(f"Replica {replica}", replica.edit_version, if_version)
        kept = _checked_changes(fleet, name, changes)
        owners.refuse_change(replica, kept)
        lines = put(write, fleet, replica, kept)
        return ReplicaChange(replica, change_of(fleet, lines, write))


def moved_to(
    fleet: Fleet, name: str, changes: Mapping[str, Any], if_version: int | None = None
) -> tuple[str, str] | None:
    """The normalised URL to which :func:`update` would move the replica, and its credential then; None: both
    stay as they are.

    Raises as :func:`update` does before it writes.
    """
    replica = replica_named(fleet, name)
    check_version(f"Replica {replica}", replica.edit_version, if_version)
    kept = _checked_changes(fleet, name, changes)
    owners.refuse_change(replica, kept)
    before = (replica.url, replica.credential)
    after = (kept.get("url", replica.url), kept.get("credential", replica.credential) or "")
    return None if after == before else after


def _checked_changes(fleet: Fleet, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid."""
    given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
    elsewhere = [
        *immutable(given, ["name"], _NAME_STAYS),
        *class_problems(given),
        *device_memory.name_problems(given),
        *adapter_problems(given, fleet.adapters),
    ]
    kept = accepted(check_replica(given, partial=True), elsewhere)
    if kept.get("admin_state", "") is None:
        raise Invalid([FieldError("/admin_state", "has no value: give it one, or leave it out")])
    return kept


def put(write: UnitOfWork, fleet: Fleet, replica: Replica, kept: Mapping[str, Any]) -> list[str]:
    """Saves checked settings. Returns what changed; nothing: nothing is written."""
    weight_before = replica.weight
    lines = put_row(write, fleet, replica, kept)
    if replica.weight != weight_before:
        summary = "; ".join(
            effective_settings.differences({"weight": weight_before}, {"weight": replica.weight})
        )
        number = revisions.record(write, fleet, f"{replica.name}.{summary}")
        text = f"{write.actor} changed the weight of {replica.name}: {summary} (revision {number})"
        write.event(Event.Kind.POLICY, text, fleet=fleet, replica=replica, revision=number)
    return lines


def put_row(write: UnitOfWork, fleet: Fleet, replica: Replica, kept: Mapping[str, Any]) -> list[str]:
    """As :func:`put`, leaving the revision of a new weight to the caller."""
    fields = dict(kept)
    if "hardware" in fields:
        fields["hardware"] = _hardware(fields["hardware"], "")
    if "accelerators" in fields:
        fields["accelerators"] = sorted(fields["accelerators"])
    for name in _COLUMNS & fields.keys():
        fields[name] = _stored(name, fields[name])
    _follow_admin_state(replica, fields)
    before = {name: _value(replica, name) for name in fields}
    lines = effective_settings.differences(*device_memory.in_words(before, fields), f"{replica.name}.")
    if not lines:
        return []
    old = described(replica)
    refuse(without_a_device({**old, **fields}))
    write.save_replica(replica, **{name: value for name, value in fields.items() if name != "accelerators"})
    if _ON_DEVICES & fields.keys():
        _put_on(write, replica, fields.get("accelerators", old["accelerators"]), "")
    write.audit("replicas.update", str(replica), old, described(replica))
    if "url" in fields and fields["url"] != before["url"]:
        write.hosts.remove(fleet.name, before["url"])
        write.hosts.add(fleet.name, replica.url)
        _begin_checking(replica)
    if any(fields.get(name, before.get(name)) != before.get(name) for name in ("url", "credential")):
        write.probe_immediately(replica)
    _write_events(write, fleet, replica, before, fields)
    return lines


def _follow_admin_state(replica: Replica, fields: dict[str, Any]) -> None:
    """Streams are moved away from a replica only while it is taken out. Raises Invalid."""
    active = Replica.AdminStateChoice.ACTIVE
    if fields.get("admin_state", replica.admin_state) != active:
        return
    if fields.get("move"):
        raise Invalid([FieldError("/move", MOVES_WHEN_OUT)])
    if replica.move:
        fields["move"] = False


def delete(fleet_name: str, name: str, actor: str, *, if_version: int | None = None) -> Change:
    """Takes a replica out for good; its requests in flight finish. Raises NotFound, Stale."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name, lock=True)
        replica = replica_named(fleet, name, lock=True)
        check_version(f"Replica {replica}", replica.edit_version, if_version)
        owners.refuse_removal(replica)
        remove(write, fleet, replica)
        write.save_fleet(fleet)
        return change_of(fleet, [f"{name}: removed"], write)


def remove(write: UnitOfWork, fleet: Fleet, replica: Replica) -> None:
    """Deletes the row; the caller bumps the fleet's versions."""
    write.audit("replicas.delete", str(replica), described(replica))
    write.hosts.remove(fleet.name, replica.url)
    replica.delete()
    text = f"{write.actor} removed replica {replica.name} ({replica.url})"
    write.event(Event.Kind.ADMIN, text, fleet=fleet, replica=replica.name)


def described(replica: Replica) -> dict[str, Any]:
    """All settings but the name, as the API answers them and audit entries keep them."""
    settings = {name: _value(replica, name) for name in REPLICA.fields if name != "name"}
    return settings | {"hardware": replica.hardware.name if replica.hardware else None}


_STATE_VERBS = {"active": "activated", "draining": "began draining", "maintenance": "put into maintenance"}


def _write_events(
    write: UnitOfWork, fleet: Fleet, replica: Replica, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """One event for the admin state, one for the rest. A weight's event names its revision."""
    others = {name for name in after if after[name] != before[name]} - {"weight"}
    if "admin_state" in others:
        state = after["admin_state"]
        moves = ", and moves its streams" if replica.move else ""
        text = f"{write.actor} {_STATE_VERBS[state]} {replica.name}{moves}"
        write.event(Event.Kind.ADMIN, text, fleet=fleet, replica=replica, state=state)
        others -= {"admin_state", "move"}
    if "move" in others:
        does = "moves" if replica.move else "stopped moving"
        text = f"{write.actor} {does} the streams of {replica.name}, which is {replica.admin_state}"
        write.event(Event.Kind.ADMIN, text, fleet=fleet, replica=replica, state=replica.admin_state)
        others.remove("move")
    if others:
        lines = effective_settings.differences(
            *device_memory.in_words(
                {name: before[name] for name in others}, {name: after[name] for name in others}
            )
        )
        text = f"{write.actor} changed {replica.name}: {'; '.join(lines)}"
        write.event(Event.Kind.ADMIN, text, fleet=fleet, replica=replica)


def _begin_checking(replica: Replica) -> None:
    """Another address is another instance: nothing is known of its health."""
    ReplicaHealth.objects.filter(replica=replica).update(
        state=ReplicaHealth.State.CHECKING,
        reason="not probed yet: it has a new URL",
        has_passed=False,
        since=timezone.now(),
        starting=True,
        flap_penalty=0.0,
        lost_at=None,
    )
    replica.refresh_from_db()


_COLUMNS = REPLICA.fields.keys() - {"hardware", "accelerators"}
"""Settings that are columns of the row as they are, and not rows of another table."""


def _stored(name: str, value: Any) -> Any:
    """What the column holds: its default where the setting is ``null``."""
    column = Replica._meta.get_field(name)
    assert isinstance(column, models.Field)
    return column.get_default() if value is None else value


_ON_DEVICES = frozenset({"accelerators", "memory_bytes", "request_bytes"})
"""What counts on the devices that a replica runs on."""


def _value(replica: Replica, name: str) -> Any:
    return device_memory.names_of(replica) if name == "accelerators" else getattr(replica, name)


def _put_on(write: UnitOfWork, replica: Replica, names: Iterable[str], at: str) -> None:
    """The devices that it runs on from now on. That all of it fits is checked at the end of the write."""
    wanted = list(names)
    devices = list(Accelerator.objects.filter(name__in=wanted))
    if len(devices) < len(wanted):  # deleted since they were checked
        refuse(device_memory.name_problems({"accelerators": wanted}, at))
    replica.accelerators.set(devices)
    write.check_memory(wanted, at, of=replica)


def problems_beside(
    settings: Mapping[str, Any], at: str = "", *, adapters: object = None
) -> list[FieldProblem]:
    """Of a new replica: hardware or adapters that it names and that are not there, memory on no device.
    ``adapters``: its fleet's."""
    return [
        *class_problems(settings, at),
        *device_memory.problems(settings, at),
        *adapter_problems(settings, adapters, at),
    ]


def withdrawn_adapters(fleet: Fleet, names: Iterable[str]) -> list[FieldProblem]:
    """Why a fleet cannot have these adapters from now on: a replica lists another, which it has now."""
    kept = set(names)
    for name, served in (
        fleet.replicas.filter(adapters__isnull=False).order_by("name").values_list("name", "adapters")
    ):
        gone = [adapter for adapter in served or () if adapter not in kept]
        if gone:
            words = f'replica {name} lists the adapter "{gone[0]}": remove it there first, or keep it here'
            return [FieldProblem("/adapters", words)]
    return []


def class_problems(settings: Mapping[str, Any], at: str = "") -> list[FieldProblem]:
    """A class that a replica names and that does not exist; reported together with all other errors."""
    name = settings.get("hardware")
    if not isinstance(name, str) or not is_slug(name) or HardwareClass.objects.filter(name=name).exists():
        return []
    return [FieldProblem(f"{at}/hardware", _unknown_hardware(name))]


def _unknown_hardware(name: str) -> str:
    return unknown_name("hardware class", name, HardwareClass.objects.values_list("name", flat=True))


def _hardware(name: str | None, at: str) -> HardwareClass | None:
    if not name:
        return None
    hardware = HardwareClass.objects.filter(name=name).first()
    if hardware is None:
        raise Invalid([FieldError(f"{at}/hardware", _unknown_hardware(name))])
    return hardware
