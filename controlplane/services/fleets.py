"""Registering, changing and removing fleets."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec
from django.db.models import F

from controlplane.access import viewer
from controlplane.models import Event, Fleet, TableState
from controlplane.services import (
    device_memory,
    effective_settings,
    fallbacks,
    replicas,
    revisions,
    table_size,
)
from controlplane.services.changes import Change, change_of
from controlplane.services.errors import Conflict, FieldError
from controlplane.services.fleet_names import FleetNames
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import UnitOfWork, check_version, table_state, unit_of_work
from controlplane.services.validation import accepted, immutable, policy_problems, refuse
from routing.contract.defaults import without_defaults
from routing.contract.exposure import DEFAULT_EXPOSE
from routing.contract.field_rules import FieldProblem
from routing.contract.fleet_file.cross_checks import OTHER_NAMES, taken_match
from routing.contract.fleet_file.rules import check_fleet
from routing.contract.probe_rules import check_probe
from routing.contract.table import Match

_NAME_STAYS = (
    "a fleet's name cannot change, because its history and its clients depend on it: add the new name to "
    "aliases, or make a new fleet"
)
_SOURCES_LATER = "make them at /api/v1/fleets/NAME/sources, once the fleet is there"
_COLUMNS = {"default": "is_default"}
"""Fields that the row calls otherwise."""
_UNSET: Mapping[str, Any] = {
    "aliases": [],
    "adapters": [],
    "match": [],
    "served_model": "",
    "expose": DEFAULT_EXPOSE,
    "credential": "",
    "labels": {},
    "default": False,
    "probe": {},
    "tls": {},
}
"""What ``null`` in a change means: not set."""


def create(settings: Mapping[str, Any], actor: str, *, confirm: str = "") -> Change:
    """A fleet as a fleet file describes it, its replicas included. Raises Invalid, Conflict, and
    NeedsConfirmation without ``confirm``, the token for hosts that it shares."""
    with unit_of_work(actor, confirm) as write:
        kept = _checked_new(settings, write.fleet_names)
        taken = _take_default(write, kept["name"]) if kept.get("default") else []
        fleet = _insert(write, kept)
        for index, replica in enumerate(kept.get("replicas", [])):
            replicas.insert(write, fleet, replica, at=f"/replicas/{index}")
        revisions.record_first(write, fleet)
        write.audit("fleets.create", fleet.name, after=described(fleet))
        write.event(Event.Kind.ADMIN, f"{actor} created fleet {fleet.name}", fleet=fleet)
        number = len(kept.get("replicas", []))
        line = f"created with {number} {'replica' if number == 1 else 'replicas'}"
        return change_of(fleet, [line, *taken], write)


def labels_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """The labels that settings give a fleet, as far as they are valid."""
    kept, _ = check_fleet({"labels": settings.get("labels") or {}}, partial=True)
    labels: dict[str, str] = kept.get("labels", {})
    return labels


def creatable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`create` would check before it writes. Raises Invalid, Conflict."""
    kept = _checked_new(settings, FleetNames.read())
    table_size.refuse_beyond(len(kept.get("replicas", [])), "/replicas")
    sent = {f"/replicas/{index}": replica for index, replica in enumerate(kept.get("replicas", []))}
    device_memory.refuse_new(kept["name"], sent)
    refuse(fallbacks.problems_of_new(kept, "/policy/fallback"))
    return kept


def _checked_new(settings: Mapping[str, Any], names: FleetNames) -> dict[str, Any]:
    """A new fleet's settings, alone and beside the other fleets."""
    table_size.refuse_long(settings.get("replicas"))
    checked = check_fleet(settings)
    problems = [
        *policy_problems(checked[0].get("policy"), "/policy"),
        *_replica_problems(settings),
        *immutable(settings, ["sources"], _SOURCES_LATER),
    ]
    kept = accepted(checked, problems)
    if Fleet.objects.filter(name=kept["name"]).exists():
        words = f"There is a fleet {kept['name']} already: choose another name"
        if viewer.may_see(kept["name"]):
            words += f", or change that one at /api/v1/fleets/{kept['name']}"
        words += "."
        raise Conflict(words, [FieldError("/name", words)])
    _check_names(kept, None, names)
    return kept


def _replica_problems(settings: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """Of a new fleet's replicas, as they were sent: names given twice, hardware that is not there,
    memory on no device."""
    replicas_sent = settings.get("replicas")
    first: dict[str, int] = {}
    for index, replica in enumerate(replicas_sent if isinstance(replicas_sent, list) else []):
        if not isinstance(replica, Mapping):
            continue
        name = replica.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            message = f'the name "{name}" is already taken by replicas[{first[name]}]: choose another'
            yield FieldProblem(f"/replicas/{index}/name", message)
        adapters = settings.get("adapters")
        yield from replicas.problems_beside(replica, f"/replicas/{index}", adapters=adapters)


def _insert(write: UnitOfWork, kept: Mapping[str, Any]) -> Fleet:
    fleet = Fleet.objects.create(
        name=kept["name"],
        protocol=kept["protocol"],
        aliases=kept.get("aliases", []),
        adapters=kept.get("adapters", []),
        match=_stored_match(kept.get("match", [])),
        served_model=kept.get("served_model", ""),
        expose=kept.get("expose") or DEFAULT_EXPOSE,
        credential=kept.get("credential", ""),
        labels=kept.get("labels", {}),
        is_default=kept.get("default", False),
        policy=without_defaults(effective_settings.policy_of(kept.get("policy", {}))),
        probe=without_defaults(effective_settings.probe_of(kept.get("probe", {}))),
        tls=without_defaults(effective_settings.tls_of(kept.get("tls", {}))),
        table_version=table_state().version_floor,
    )
    write.fleet_added(fleet)
    write.fallbacks.policy(fleet.name, {}, fleet.policy, "/policy")
    return fleet


def update(
    name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None, confirm: str = ""
) -> Change:
    """Changes names, protocol, probe, tls or whether it is the default. ``probe`` and ``tls`` are merged
    (RFC 7396).

    Raises NotFound, Invalid, Stale, Conflict, and NeedsConfirmation without ``confirm``, the token for hosts
    that it shares.
    """
    with unit_of_work(actor, confirm) as write:
        fleet = fleet_named(name, lock=True)
        check_version(f"Fleet {name}", fleet.edit_version, if_version)
        kept = checked_changes(fleet, changes)
        lines = put(write, fleet, kept)
        return change_of(fleet, lines, write)


def checked_changes(fleet: Fleet, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`update` will store, by the names of a fleet file, ``probe`` and ``tls`` whole.

    Raises Invalid.
    """
    name = fleet.name
    given = {
        key: _UNSET.get(key) if value is None else value
        for key, value in changes.items()
        if not (key == "name" and value == name)
    }
    if fleet.expose is None and changes.get("expose", "") is None:
        del given["expose"]  # as it was read: an older fleet stays as open as it is
    elsewhere = [
        *immutable(given, ["name"], _NAME_STAYS),
        *immutable(given, ["policy"], f"change it at /api/v1/fleets/{name}/policy"),
        *immutable(given, ["replicas"], f"change them at /api/v1/fleets/{name}/replicas"),
        *immutable(given, ["sources"], f"change them at /api/v1/fleets/{name}/sources"),
    ]
    probe_changes = given.get("probe")
    if isinstance(probe_changes, Mapping) and changes["probe"] is not None:
        given["probe"] = _probe_merged(fleet.probe, probe_changes)
    tls_changes = given.get("tls")
    if isinstance(tls_changes, Mapping) and changes["tls"] is not None:
        given["tls"] = effective_settings.merged(fleet.tls, tls_changes)
    kept = accepted(check_fleet(given, partial=True), elsewhere)
    refuse(replicas.withdrawn_adapters(fleet, kept["adapters"]) if "adapters" in kept else [])
    return kept


def put(write: UnitOfWork, fleet: Fleet, kept: Mapping[str, Any]) -> list[str]:
    """Saves checked settings (``probe``, ``tls`` whole). Returns what changed; if nothing, writes nothing."""
    given = {_COLUMNS.get(name, name): value for name, value in kept.items()}
    if "probe" in given:
        given["probe"] = without_defaults(effective_settings.probe_of(given["probe"]))
    if "tls" in given:
        given["tls"] = without_defaults(effective_settings.tls_of(given["tls"]))
    if "match" in given:
        given["match"] = _stored_match(given["match"])
    fields = {name: value for name, value in given.items() if value != getattr(fleet, name)}
    if not fields:
        return []
    different = {name: value for name, value in kept.items() if _COLUMNS.get(name, name) in fields}
    before = {name: getattr(fleet, _COLUMNS.get(name, name)) for name in different}
    if "expose" in before:
        write.hosts.expose(fleet.name, before["expose"])
    after = {name: fields[_COLUMNS.get(name, name)] for name in different}
    lines = effective_settings.differences(before, after)
    _check_names(kept, fleet, write.fleet_names)
    taken = _take_default(write, fleet.name) if fields.get("is_default") else []
    write.save_fleet(fleet, **fields)
    if "protocol" in fields:
        write.fallbacks.protocol(fleet.name)
    if {"aliases", "adapters", "match", "is_default"} & fields.keys():
        write.manifest_changed()
    write.audit("fleets.update", fleet.name, before, after)
    text = f"{write.actor} changed fleet {fleet.name}: {'; '.join(lines)}"
    write.event(Event.Kind.ADMIN, text, fleet=fleet)
    return lines + taken


def delete(name: str, actor: str, *, if_version: int | None = None) -> Change:
    """Removes the fleet with its replicas and revisions; its events stay. Raises NotFound, Stale, and
    Conflict while others fall back to it."""
    with unit_of_work(actor) as write:
        fleet = fleet_named(name, lock=True)
        check_version(f"Fleet {name}", fleet.edit_version, if_version)
        change = change_of(fleet, ["deleted"], write)
        TableState.objects.filter(pk=table_state().pk, version_floor__lte=fleet.table_version).update(
            version_floor=fleet.table_version + 1
        )
        before = described(fleet)
        fleet.delete()
        write.fleet_removed(fleet)
        write.fallbacks.removed(name)
        write.audit("fleets.delete", name, before)
        write.event(Event.Kind.ADMIN, f"{actor} deleted fleet {name}", fleet=name)
        return change


def described(fleet: Fleet) -> dict[str, Any]:
    """The row as audit entries keep it."""
    return {
        "protocol": fleet.protocol,
        "aliases": fleet.aliases,
        "adapters": fleet.adapters,
        "match": fleet.match,
        "served_model": fleet.served_model,
        "expose": fleet.expose,
        "credential": fleet.credential,
        "labels": fleet.labels,
        "default": fleet.is_default,
        "policy": fleet.policy,
        "probe": fleet.probe,
        "tls": fleet.tls,
        "weights": revisions.weights_of(fleet),
    }


def _take_default(write: UnitOfWork, name: str) -> list[str]:
    """At most one fleet is the default: the one that was, no longer is, and what it lost is said there too.

    Returns what changed, for who wrote it and so may see both fleets. Events name only their own: who reads
    them may not see the other.
    """
    lines = []
    for former in Fleet.objects.filter(is_default=True).exclude(name=name):
        Fleet.objects.filter(pk=former.pk).update(is_default=False, edit_version=F("edit_version") + 1)
        write.audit("fleets.update", former.name, {"default": True}, {"default": False})
        text = f"{write.actor} made another fleet the default in place of {former.name}"
        write.event(Event.Kind.ADMIN, text, fleet=former)
        lines.append(f"default: moved from fleet {former.name}; requests that name no fleet now go to {name}")
    return lines


_OF_EVERY_PRESET = (
    "period_s",
    "timeout_s",
    "rise",
    "fall",
    "startup_budget_s",
    "flap_damping",
    "headers",
    "inference",
    "inference_body",
    "inference_period_s",
    "inference_timeout_s",
    "warm_up",
    "load_reports",
    "load_header",
)
"""Of a probe's settings, those that mean the same with each."""


def _probe_merged(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A new preset forgets the settings that only made sense with the old one."""
    if "preset" in changes and changes["preset"] != stored.get("preset", "http"):
        kept, _ = check_probe({**stored, "preset": "http"})
        stored = {name: value for name, value in kept.items() if name in _OF_EVERY_PRESET}
    return effective_settings.merged(stored, changes)


def _check_names(kept: Mapping[str, Any], fleet: Fleet | None, names: FleetNames) -> None:
    """A name, alias or adapter leads to one fleet only. Raises Invalid."""
    name = fleet.name if fleet is not None else kept["name"]
    refuse(chain(_name_problems(kept, fleet, name, names), _match_problems(kept, name, names)))


def _name_problems(
    kept: Mapping[str, Any], fleet: Fleet | None, name: str, names: FleetNames
) -> Iterator[FieldProblem]:
    if fleet is None and (words := names.owner_words(name, "")):
        yield FieldProblem("/name", f'the name "{name}" is already {words}: choose another')
    own = {name: "this fleet's own name"}
    for field, word in OTHER_NAMES.items():
        if fleet is not None and field not in kept:
            own.update(dict.fromkeys(getattr(fleet, field), f"an {word} of this fleet"))
    for field, word in OTHER_NAMES.items():
        for index, other in enumerate(kept.get(field, [])):
            if words := own.get(other) or names.owner_words(other, name):
                message = f'the {word} "{other}" is already {words}: choose another'
                yield FieldProblem(f"/{field}/{index}", message)
            own[other] = "listed here"


def _match_problems(kept: Mapping[str, Any], name: str, names: FleetNames) -> Iterator[FieldProblem]:
    """A host and path lead to one fleet only."""
    listed: set[Match] = set()
    for index, match in enumerate(msgspec.convert(kept.get("match", []), list[Match])):
        if owner := names.owner_of_match(match, name) or (name if match in listed else ""):
            yield FieldProblem(
                f"/match/{index}", taken_match(match, owner, name, viewer.fleet_in_words(owner))
            )
        listed.add(match)


def _stored_match(match: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [without_defaults(one) for one in msgspec.convert(match, list[Match])]
