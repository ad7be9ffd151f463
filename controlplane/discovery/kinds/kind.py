"""Kind: what a source can be asked, and how an answer becomes a listing."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Protocol

from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.listing import Listing
from routing.contract.defaults import with_defaults
from routing.contract.field_rules import MOST_PROBLEMS, FieldProblem, path_of
from routing.contract.fleet_file import ReplicaEntry
from routing.contract.fleet_file.rules import check_replica
from routing.contract.fleet_file.sources.source_rules import misplaced


class SourceError(Exception):
    """A source does not answer, or not as it should: in words, the cure included, without times."""


class SourceKind(Protocol):
    """One source. Used by one event loop."""

    wants_own: bool
    """Whether its list depends on what it has registered already."""

    async def read(self, own: Mapping[str, OwnRow]) -> Listing:
        """All that is there now. ``own``: see ``wants_own``, else empty. Raises SourceError; whatever else it
        raises is a failing source as well."""
        ...

    def changes(self) -> AsyncIterator[Listing | None]:
        """Incomplete listings, as soon as something changes; ``None``: it is to be listed again now. For as
        long as it can tell; the caller asks again. A kind that cannot tell ends at once."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


async def no_changes() -> AsyncIterator[None]:
    """Of a kind that can only be listed."""
    return
    yield None


def entries_of(values: Iterable[object], template: Mapping[str, Any], at: str) -> dict[str, ReplicaEntry]:
    """Replicas as people or programs write them, by name. ``template``: settings of all of them; ``at``: JSON
    pointer, for messages. Raises SourceError, which names the first that is wrong: a list without it would
    take a replica out."""
    found: dict[str, ReplicaEntry] = {}
    problems: list[FieldProblem] = []
    for index, value in enumerate(values):
        pointer = f"{at}/{index}"
        if not isinstance(value, Mapping):
            problems.append(FieldProblem(pointer, misplaced(value)))
            break
        kept, wrong = check_replica(value)
        problems += [FieldProblem(pointer + one.pointer, one.message) for one in wrong]
        if problems:
            break
        entry = entry_of({**template, **kept})
        if entry.name in found:
            problems.append(FieldProblem(f"{pointer}/name", f'"{entry.name}" is listed twice: remove one'))
            break
        found[entry.name] = entry
    refuse(problems)
    return found


def entry_of(kept: Mapping[str, Any]) -> ReplicaEntry:
    """Of checked settings."""
    settings = {name: value for name, value in kept.items() if value is not None}
    if "accelerators" in settings:
        settings["accelerators"] = sorted(settings["accelerators"])
    return with_defaults(settings, ReplicaEntry)


def refuse(problems: list[FieldProblem]) -> None:
    """Raises SourceError with the first of them, if there are any."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if 1 < len(problems) < MOST_PROBLEMS else ""
        path = path_of(problems[0].pointer)
        raise SourceError(f"{path}: {problems[0].message}{more}" if path else problems[0].message)
