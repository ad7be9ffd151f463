"""Listing: what a source says is there, and what is there of it in the fleet. Values without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from routing.contract.fleet_file import ReplicaEntry


@dataclass(frozen=True, slots=True)
class Listing:
    """One answer of a source. A source that does not answer has none."""

    entries: Mapping[str, ReplicaEntry]
    complete: bool = True
    """False: these were seen to change (a watch's event); what is not among them may well be there."""
    leaving: frozenset[str] = frozenset()
    """Said by name to go (a terminating pod, a replica that deregistered)."""
    note: str = ""
    """What people should know of it, in words."""
    declared_size: int | None = None
    """How many there are, where the source says so apart from listing them; the listing is whole if it has as
    many."""


@dataclass(frozen=True, slots=True)
class OwnReplica:
    """A replica that this source registered. Others are not its business: see ``taken``."""

    entry: ReplicaEntry
    ready: bool
    """By probes, whatever its admin state."""
    gone: bool
    """Probes find nothing there: ``down``, or never passed."""
    active: bool = True
    drained_by_source_s: float | None = None
    """How long ago it was drained for its source; ``None``: it was not."""
    safe_to_stop: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, by name."""

    add: tuple[ReplicaEntry, ...] = ()
    change: tuple[ReplicaEntry, ...] = ()
    """Their fields but PEOPLES_FIELDS."""
    drain: frozenset[str] = frozenset()
    resume: frozenset[str] = frozenset()
    """Drained for the source, and listed again."""
    remove: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    """Listed under names that somebody else owns: left alone."""
    frozen: str = ""
    """Why replicas that are not listed stay, in words; empty: none does."""
    hurry: bool = False
    """Whether to list again in RECHECK_S, not at the source's next resync."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Of one own replica: complete listings in a row that lack it."""

    since: float
    listings: int = 1
    gone: int = 0
    """How many of the last of them found it gone by probes too."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept of a source between two steps. Times are of one monotonic clock, in seconds."""

    seen_at: float | None = None
    """Last complete listing."""
    sizes: tuple[tuple[float, int], ...] = ()
    """(at, entries) of complete listings that were believed, those of SIZES_S."""
    missing: Mapping[str, Missing] = field(default_factory=dict)
