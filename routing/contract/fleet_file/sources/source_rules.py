"""Discovery source rules: what may be set of a source, by its kind, and the defaults."""

from collections.abc import Mapping
from typing import Any

import msgspec

from routing.contract.defaults import with_defaults
from routing.contract.field_rules import FieldProblem, Flag, Problems, Section, Text, found, seconds
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.sources import dns_records, kubernetes, lease, watched_file
from routing.contract.fleet_file.sources.source_structs import SourceEntry
from routing.contract.names import checked_slug

PEOPLES_FIELDS = frozenset({"name", "weight", "admin_state", "move"})
"""What a source says of a new replica only: afterwards they are what people make of them."""
RESYNC_S = SourceEntry(name="any").resync_s
_NOT_OF_ALL = frozenset({"name", "url", "admin_state", "move"})
"""Of a replica: what cannot be the same for all that a source lists."""

MOST_SOURCES = 50
"""Of one fleet."""

KINDS: Mapping[str, Section] = {
    "file": watched_file.FILE,
    "lease": lease.LEASE,
    "dns": dns_records.DNS,
    "kubernetes": kubernetes.KUBERNETES,
}


def kind_of(settings: Mapping[str, Any]) -> str:
    """Of checked settings."""
    return next(name for name in KINDS if name in settings)


def _one_kind(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    given = [name for name in KINDS if name in fields]
    kinds = ", ".join(KINDS)
    if not given:
        problems.append(FieldProblem(at, f"needs one of {kinds}: where the replicas are listed"))
    elif len(given) > 1:
        words = f"is beside {given[0]}: a source is of one kind; make another source for it"
        problems.append(FieldProblem(f"{at}/{given[1]}", words))
    resync_s = fields.get("resync_s")
    if "lease" in given and isinstance(resync_s, int | float) and resync_s > RESYNC_S:
        words = f"must be at most {RESYNC_S:g} for leases: what runs out is to be seen; remove it"
        problems.append(FieldProblem(f"{at}/resync_s", words))


SOURCE = Section(
    words="What lists replicas of a fleet.",
    what="a source",
    fields={
        "name": Text(
            words="Name of the source, unique in its fleet. Cannot change later.",
            what="name",
            check=checked_slug,
            required="pods",
        ),
        **KINDS,
        "replica": Section(
            words="Settings of every replica that it lists, unless the list says otherwise.",
            what="settings of replicas",
            fields={name: rule for name, rule in REPLICA.fields.items() if name not in _NOT_OF_ALL},
        ),
        "resync_s": seconds(f"Time between two lists. Not set: {RESYNC_S:g}.", 1, 300),
        "paused": Flag(words="Whether it is not followed for now: its replicas stay as they are."),
    },
    cross_check=_one_kind,
)


def check_source(settings: Mapping[str, Any], at: str = "") -> tuple[dict[str, Any], list[FieldProblem]]:
    """A whole source, its name included. ``null`` stands for what is not set."""
    problems: Problems = []
    given = {name: value for name, value in settings.items() if value is not None}
    return SOURCE.read_fields(given, at, problems), problems


def effective(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Checked settings with their defaults, but for the name; of the kinds that which it is of."""
    whole: dict[str, Any] = msgspec.to_builtins(entry("", settings))
    others = KINDS.keys() - {kind_of(settings)}
    return {name: value for name, value in whole.items() if name != "name" and name not in others}


def entry(name: str, settings: Mapping[str, Any]) -> SourceEntry:
    """Checked settings as a fleet file has them."""
    return with_defaults({**settings, "name": name}, SourceEntry)


def misplaced(value: object) -> str:
    """What an entry of a list is, where it is no replica."""
    return f"must be a replica as a group of fields, not {found(value)}"
