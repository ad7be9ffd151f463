"""Fleet file: apply one to the database in one transaction, and dump the database as one.

Applying creates or changes what the file names. With ``prune`` it removes the fleets, hardware classes
and accelerators that the file does not name. A fleet of the file then has exactly the replicas that the
file lists, beside those that sources (:mod:`controlplane.discovery`) put there, which are never in a file,
and exactly the sources, where it has a list of these.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from django.db import transaction

from controlplane.models import Accelerator, Fleet, HardwareClass, Replica
from controlplane.services import (
    accelerators,
    device_memory,
    dropping,
    effective_settings,
    fallbacks,
    fleets,
    hardware,
    owners,
    policies,
    replicas,
    revisions,
    sources,
    table_size,
)
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import UnitOfWork, unit_of_work
from controlplane.services.validation import refuse
from routing.contract.defaults import without_defaults
from routing.contract.exposure import ALL
from routing.contract.field_rules import FieldProblem
from routing.contract.fleet_file import ExistingState, FleetEntry, FleetFile, HardwareEntry, ReplicaEntry
from routing.contract.fleet_file.sources.source_structs import SourceEntry
from routing.contract.table import AcceleratorSpec, Match

_KEYS_ELSEWHERE = (
    "client keys are made on the page “Client keys” or at /api/v1/client-keys: those of a fleet file "
    "are for a proxy that runs from the file alone; remove them"
)
_KEYS_REQUIRED_ELSEWHERE = (
    "whether client keys are required is set on the page “Client keys” or at /api/v1/client-keys/settings: "
    "keys_required of a fleet file is for a proxy that runs from the file alone; remove it"
)


def elsewhere(*, prune: bool = False) -> ExistingState:
    """What a file must not collide with. With ``prune`` no fleet stays that it does not name."""
    fleets = [] if prune else list(Fleet.objects.values_list("name", "aliases", "adapters", "match"))
    matches: dict[Match, str] = {}
    for name, *_, match in fleets:
        matches |= dict.fromkeys(msgspec.convert(match, list[Match]), name)
    return ExistingState(
        hardware=set(HardwareClass.objects.values_list("name", flat=True)),
        aliases={name: aliases for name, aliases, *_ in fleets},
        adapters={name: adapters for name, _, adapters, _ in fleets},
        matches=matches,
        accelerators=[row.spec for row in Accelerator.objects.all()],
        held=[] if prune else device_memory.held(),
        links={} if prune else fallbacks.links_of_all(),
        refused={"client_keys": _KEYS_ELSEWHERE, "keys_required": _KEYS_REQUIRED_ELSEWHERE},
    )


def apply(
    file: FleetFile,
    actor: str,
    *,
    prune: bool = False,
    dry_run: bool = False,
    confirm: str = "",
    confirm_all: bool = False,
) -> list[str]:
    """What changed, one line each; empty when everything was as the file says.

    Applying twice changes nothing. Raises Invalid and Conflict; then nothing is written. ``dry_run``: all of
    it is done and taken back, so that what would change is told as exactly; nothing is sent to proxies.

    Raises NeedsConfirmation where most of what serves would go, or fleets would come to share a host that one
    of them exposes. ``confirm``: its token; ``confirm_all``: it is done all the same.
    """
    refuse([FieldProblem("/client_keys", _KEYS_ELSEWHERE)] if file.client_keys else [])
    refuse(
        [FieldProblem("/keys_required", _KEYS_REQUIRED_ELSEWHERE)] if file.keys_required is not None else []
    )
    table_size.refuse_long([replica for fleet in file.fleets for replica in fleet.replicas], "/fleets")
    guard: AbstractContextManager[None] = dropping.confirmed(confirm)
    if confirm_all or dry_run:
        guard = nullcontext()
    with unit_of_work(actor, confirm) as write, guard:
        before = dropping.serving() if dry_run else frozenset()
        lines = [line for entry in file.hardware for line in _hardware(write, entry)]
        lines += [line for spec in file.accelerators for line in _accelerator(write, spec)]
        if prune:
            lines += _prune_fleets(write, file)
        lines += _free_names(write, file)
        for fleet_entry in file.fleets:
            lines += _fleet(write, fleet_entry)
        if prune:
            lines += _prune_hardware(write, file)
            lines += _prune_accelerators(write, file)
        sharing = write.hosts.sharing() if dry_run or confirm_all else None
        if dry_run:
            write.finish()
            if sharing is not None:
                lines.append(f"to be confirmed: {sharing.words}")
            if drop := dropping.drop_between(before, dropping.serving()):
                lines.append(f"to be confirmed: {drop.words}")
            transaction.set_rollback(True)  # with it goes what would be sent on commit
        return lines


def read() -> FleetFile:
    """The file that describes all that is there. Seven queries."""
    listing = sources.entries()
    entries: dict[int, list[ReplicaEntry]] = {}
    for replica in (
        Replica.objects.filter(owner=None)
        .select_related("hardware")
        .prefetch_related("accelerators")
        .order_by("fleet_id", "name")
    ):
        entries.setdefault(replica.fleet_id, []).append(replica_entry(replica))
    return FleetFile(
        hardware=[HardwareEntry(name=row.name, weight=row.weight) for row in HardwareClass.objects.all()],
        accelerators=[row.spec for row in Accelerator.objects.all()],
        fleets=[
            _fleet_entry(fleet, entries.get(fleet.pk, []), listing.get(fleet.pk))
            for fleet in Fleet.objects.all()
        ],
    )


def _hardware(write: UnitOfWork, entry: HardwareEntry) -> list[str]:
    row = HardwareClass.objects.filter(name=entry.name).first()
    if row is None:
        hardware.insert(write, {"name": entry.name, "weight": entry.weight})
        return [f"hardware {entry.name}: created"]
    changed = hardware.put(write, row, {"weight": entry.weight})
    return [f"hardware {line}" for line in changed]


def _accelerator(write: UnitOfWork, spec: AcceleratorSpec) -> list[str]:
    settings = msgspec.structs.asdict(spec)
    row = Accelerator.objects.filter(name=settings.pop("name")).first()
    if row is None:
        accelerators.insert(write, {"name": spec.name, **settings})
        return [f"accelerator {spec.name}: created"]
    changed = accelerators.put(write, row, settings)
    return [f"accelerator {line}" for line in changed]


def _fleet(write: UnitOfWork, entry: FleetEntry) -> list[str]:
    fleet = Fleet.objects.select_for_update().filter(name=entry.name).first()
    if fleet is None:
        change = fleets.create(_creation(entry), write.actor)
        made = sources.apply(write, fleet_named(entry.name), entry.sources or [])
        return [f"fleet {entry.name}: {line}" for line in (*change.lines, *made)]
    settings = {
        "protocol": entry.protocol,
        "aliases": entry.aliases,
        "adapters": entry.adapters,
        "match": [without_defaults(match) for match in entry.match],
        "served_model": entry.served_model,
        "credential": entry.credential,
        "labels": dict(entry.labels),
        "default": entry.default,
        "probe": without_defaults(entry.probe),
        "tls": without_defaults(entry.tls),
    }
    if entry.expose is not None:
        settings["expose"] = entry.expose
    lines = fleets.put(write, fleet, settings)
    if entry.sources is not None:
        # First: what those that go have registered is people's then, and goes unless the file lists it.
        lines += sources.apply(write, fleet, entry.sources)
    lines += _policy_and_replicas(write, fleet, entry)
    return [f"fleet {entry.name}: {line}" for line in lines]


def _creation(entry: FleetEntry) -> dict[str, Any]:
    """As the API is sent it."""
    settings = {"protocol": entry.protocol, **without_defaults(entry)}
    settings.pop("sources", None)
    return settings


def _policy_and_replicas(write: UnitOfWork, fleet: Fleet, entry: FleetEntry) -> list[str]:
    weights = revisions.weights_of(fleet)
    lines, membership_changed = _replicas(write, fleet, entry.replicas)
    after = revisions.weights_of(fleet)
    # Replicas that came or went are no change of weights; those that stayed with another weight are.
    reweighed = any(after[name] != weights[name] for name in after if name in weights)
    policy = policies.checked_for_storage(without_defaults(entry.policy))
    changed = policies.put(write, fleet, policy)
    if reweighed and not changed:
        revisions.record(write, fleet, "weights from a fleet file")
    elif membership_changed and not changed:
        write.save_fleet(fleet)
    return lines + changed


def _replicas(write: UnitOfWork, fleet: Fleet, entries: list[ReplicaEntry]) -> tuple[list[str], bool]:
    """What changed, and whether replicas came or went."""
    every = Replica.objects.select_related("hardware", "owner__source").filter(fleet=fleet)
    rows = {row.name: row for row in every}
    owned = {name: row.owner.source for name, row in rows.items() if hasattr(row, "owner")}
    lines: list[str] = []
    membership_changed = False
    for entry in entries:
        settings = msgspec.to_builtins(entry)
        row = rows.pop(entry.name, None)
        if row is not None and entry.name in owned:
            row.fleet = fleet
            owners.refuse_in_file(row, owned[entry.name])
        if row is None:
            replicas.insert(write, fleet, settings)
            lines.append(f"{entry.name}: registered")
            membership_changed = True
        else:
            row.fleet = fleet
            lines += replicas.put_row(write, fleet, row, _settable(settings))
    for row in rows.values():
        if row.name in owned:
            continue
        row.fleet = fleet
        replicas.remove(write, fleet, row)
        lines.append(f"{row.name}: removed")
        membership_changed = True
    return lines, membership_changed


def _settable(settings: dict[str, Any]) -> dict[str, Any]:
    """A replica's state is what its operator last said, unless the file says otherwise."""
    del settings["name"]
    for name in ("admin_state", "move"):
        if settings[name] is None:
            del settings[name]
    return settings


def _free_names(write: UnitOfWork, file: FleetFile) -> list[str]:
    """What moves from one fleet to another leaves the first before the second takes it."""
    wanted = {entry.name: entry for entry in file.fleets}
    lines = []
    for fleet in Fleet.objects.filter(name__in=wanted):
        entry = wanted[fleet.name]
        matches = [without_defaults(match) for match in entry.match]
        kept = {
            "aliases": [alias for alias in fleet.aliases if alias in entry.aliases],
            "adapters": [adapter for adapter in fleet.adapters if adapter in entry.adapters],
            "match": [match for match in fleet.match if match in matches],
        }
        lines += [f"fleet {fleet.name}: {line}" for line in fleets.put(write, fleet, kept)]
    return lines


def _prune_fleets(write: UnitOfWork, file: FleetFile) -> list[str]:
    names = [entry.name for entry in file.fleets]
    gone = list(Fleet.objects.exclude(name__in=names).values_list("name", flat=True))
    for name in gone:
        fleets.delete(name, write.actor)
    return [f"fleet {name}: deleted" for name in gone]


def _prune_hardware(write: UnitOfWork, file: FleetFile) -> list[str]:
    names = [entry.name for entry in file.hardware]
    unused = HardwareClass.objects.exclude(name__in=names).filter(replicas__isnull=True)
    gone = list(unused.values_list("name", flat=True))
    for name in gone:
        hardware.delete(name, write.actor)
    return [f"hardware {name}: deleted" for name in gone]


def _prune_accelerators(write: UnitOfWork, file: FleetFile) -> list[str]:
    names = [spec.name for spec in file.accelerators]
    unused = Accelerator.objects.exclude(name__in=names).filter(replicas__isnull=True)
    gone = list(unused.values_list("name", flat=True))
    for name in gone:
        accelerators.delete(name, write.actor)
    return [f"accelerator {name}: deleted" for name in gone]


def _fleet_entry(fleet: Fleet, entries: list[ReplicaEntry], listing: list[SourceEntry] | None) -> FleetEntry:
    return FleetEntry(
        name=fleet.name,
        protocol=fleet.protocol,  # type: ignore[arg-type]  # the column's choices are the literal's
        aliases=list(fleet.aliases),
        adapters=list(fleet.adapters),
        match=msgspec.convert(fleet.match, list[Match]),
        served_model=fleet.served_model,
        # Where it is applied, a fleet that does not say is made with less.
        expose=ALL if fleet.expose is None else fleet.expose,
        credential=fleet.credential,
        labels=dict(fleet.labels),
        default=fleet.is_default,
        policy=effective_settings.policy_of(fleet.policy),
        probe=effective_settings.probe_of(fleet.probe),
        tls=effective_settings.tls_of(fleet.tls),
        replicas=entries,
        sources=listing,
    )


def replica_entry(replica: Replica) -> ReplicaEntry:
    """A row as a fleet file has it."""
    settings = replicas.described(replica)
    settings["hardware"] = settings["hardware"] or ""
    if settings["admin_state"] == Replica.AdminStateChoice.ACTIVE:
        settings["admin_state"] = None
    settings["move"] = settings["move"] or None
    return ReplicaEntry(name=replica.name, **settings)
