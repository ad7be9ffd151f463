"""Trial service of sources: what would become of a fleet's replicas if these settings were followed now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis

from controlplane.discovery import trials
from controlplane.discovery.lease_store import LeaseStore
from controlplane.discovery.trials import SourceTrial, TrialListing
from controlplane.models import DiscoverySource, Fleet, Replica, ReplicaOwner
from controlplane.services import effective_settings, sources
from controlplane.services.fleet_files import replica_entry
from controlplane.services.replicas import problems_beside
from routing.contract.field_rules import path_of
from routing.contract.fleet_file import ReplicaEntry
from routing.contract.fleet_file.sources import source_rules
from routing.contract.fleet_file.sources.source_rules import PEOPLES_FIELDS

MOST_SHOWN = 50
"""Names and replicas of one kind that are answered."""
MOST_JUDGED = 200
"""New replicas of which it is said whether they could be registered; of further ones it is assumed."""
_NOT_REGISTERED = "replicas register themselves: nothing is there before the first one does"


@dataclass
class TrialOutcome:
    listing: TrialListing
    new: list[ReplicaEntry] = field(default_factory=list)
    """That would be registered."""
    changed: dict[str, list[str]] = field(default_factory=dict)
    """Name → what would change, one line each."""
    unchanged: int = 0
    missing: list[str] = field(default_factory=list)
    """That the source has registered, and would no longer list."""
    left_alone: list[str] = field(default_factory=list)
    """Listed under names of people or other sources."""
    refused: dict[str, str] = field(default_factory=dict)
    """Name → why it could not be registered."""

    @property
    def words(self) -> str:
        if self.listing.error:
            return f"It does not answer: {self.listing.error}."
        number = len(self.listing.entries)
        parts = [
            f"{len(self.new)} would be registered" if self.new else "",
            f"{len(self.changed)} would change" if self.changed else "",
            f"{self.unchanged} unchanged" if self.unchanged else "",
            f"{len(self.refused)} would be left out" if self.refused else "",
            f"{len(self.left_alone)} would be left alone, for others have the name"
            if self.left_alone
            else "",
            f"{len(self.missing)} of its own not among them" if self.missing else "",
        ]
        said = ", ".join(part for part in parts if part)
        note = f"; {self.listing.note}" if self.listing.note else ""
        return (
            f"It lists {number} {'replica' if number == 1 else 'replicas'}{': ' if said else ''}{said}{note}."
        )


def attempt(fleet: Fleet, settings: Mapping[str, Any], client: "redis.Redis") -> TrialOutcome:
    """Of a whole source; one with the name of a source of the fleet is that source with other settings.

    Raises Invalid, :class:`~controlplane.discovery.trials.NobodyLooks`, redis.RedisError.
    """
    row = DiscoverySource.objects.filter(fleet=fleet, name=str(settings.get("name"))[:63]).first()
    kept = sources.checked(fleet, settings, sources.other_kind(row, settings) if row else None)
    kind = source_rules.kind_of(kept)
    if kind == "lease":
        return _compared(fleet, row, _leases(row, kept, client))
    given = {name: value for name, value in kept.items() if name != "name"}
    return _compared(fleet, row, trials.ask(client, SourceTrial(kind, given)))


def _leases(row: DiscoverySource | None, kept: Mapping[str, Any], client: "redis.Redis") -> TrialListing:
    """Of this kind no conductor is needed to say what is there."""
    if row is None:
        return TrialListing(0.0, note=_NOT_REGISTERED)
    found, now = LeaseStore(client, str(row.uid)).read()
    template = kept.get("replica", {})
    entries = [
        msgspec.convert({**template, **lease.settings, "name": name}, ReplicaEntry)
        for name, lease in sorted(found.items())
        if lease.expires_at > now and not lease.leaving
    ]
    return TrialListing(0.0, entries=entries, note="" if entries else _NOT_REGISTERED)


def _compared(fleet: Fleet, row: DiscoverySource | None, listing: TrialListing) -> TrialOutcome:
    outcome = TrialOutcome(listing)
    if listing.error:
        return outcome
    rows = Replica.objects.filter(fleet=fleet).select_related("hardware").prefetch_related("accelerators")
    there = {one.name: one for one in rows}
    own = set(ReplicaOwner.objects.filter(source=row).values_list("replica__name", flat=True))
    own = own if row is not None else set()
    for entry in listing.entries:
        if entry.name not in there:
            _new(fleet, entry, outcome)
        elif entry.name not in own:
            outcome.left_alone.append(entry.name)
        elif lines := _differences(there[entry.name], entry):
            outcome.changed[entry.name] = lines
        else:
            outcome.unchanged += 1
    outcome.missing = sorted(own - {entry.name for entry in listing.entries})
    return outcome


def _new(fleet: Fleet, entry: ReplicaEntry, outcome: TrialOutcome) -> None:
    settings = {name: value for name, value in msgspec.to_builtins(entry).items() if value not in (None, "")}
    # Each is a few queries, and one that is wrong is mostly wrong as the others are.
    judged = len(outcome.new) + len(outcome.refused) < MOST_JUDGED
    problems = problems_beside(settings, adapters=fleet.adapters) if judged else []
    if problems:
        outcome.refused[entry.name] = f"{path_of(problems[0].pointer)}: {problems[0].message}"
    else:
        outcome.new.append(entry)


def _differences(there: Replica, entry: ReplicaEntry) -> list[str]:
    before, after = msgspec.to_builtins(replica_entry(there)), msgspec.to_builtins(entry)
    for name in PEOPLES_FIELDS:
        del before[name], after[name]
    return effective_settings.differences(before, after)
