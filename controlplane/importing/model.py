"""Model of an import: fleets whose values carry their source, and what was not carried over."""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from routing.contract.addresses import normalise_url
from routing.contract.names import is_slug

Fields = dict[str, Any]
"""Fields of a fleet file; any value may be a :class:`SourcedValue`."""

_SHOWN = 80


class NotImportable(Exception):
    """The file has another format, or nothing in it can be carried over; ``str()`` is one sentence."""


class SourceLocation(NamedTuple):
    """File and line in a configuration. Line 0: no particular line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file} line {self.line}" if self.line else self.file


class SourcedValue(NamedTuple):
    """A value, and why it is that, for a comment beside it."""

    value: Any
    why: str


class ImportNote(NamedTuple):
    """Something that is not in the fleet file, or is there with another meaning."""

    place: SourceLocation
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {shown(self.what)}: {concealed(self.why)}"


@dataclass
class FleetDraft:
    """One fleet, and the words above it."""

    name: str
    heading: str
    fields: Fields = field(default_factory=dict)
    """Without name and replicas."""
    replicas: list[Fields] = field(default_factory=list)

    def policy(self) -> Fields:
        policy: Fields = self.fields.setdefault("policy", {})
        return policy

    def timeouts(self) -> Fields:
        timeouts: Fields = self.policy().setdefault("timeouts", {})
        return timeouts


@dataclass
class Draft:
    """All that an import has found."""

    source: str
    kind: str
    """``nginx`` or ``litellm``."""
    fleets: list[FleetDraft] = field(default_factory=list)
    dropped: list[ImportNote] = field(default_factory=list)
    changed: list[ImportNote] = field(default_factory=list)
    _dropped: set[ImportNote] = field(default_factory=set)
    _changed: set[ImportNote] = field(default_factory=set)
    """What the lists hold: a large file has many."""

    def note_dropped(self, place: SourceLocation, what: str, why: str) -> None:
        note = ImportNote(place, what, why)
        if note not in self._dropped:
            self._dropped.add(note)
            self.dropped.append(note)

    def note_changed(self, place: SourceLocation, what: str, why: str) -> None:
        note = ImportNote(place, what, why)
        if note not in self._changed:
            self._changed.add(note)
            self.changed.append(note)

    def url(self, place: SourceLocation, what: str, text: str) -> str | None:
        """A base URL a replica can have, else None after saying why it cannot."""
        try:
            return normalise_url(text)
        except ValueError as error:
            self.note_dropped(place, what, str(error))
            return None


class UniqueNames:
    """Slugs, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last number that was tried after each name: thousands may want the same."""

    def take(self, wanted: str, otherwise: str) -> str:
        """``wanted`` as a slug that is not taken; ``otherwise`` if no valid character is left."""
        base = slug(wanted) or otherwise
        name, number = base, self._numbers.get(base, 1)
        while name in self._taken:
            number += 1
            self._numbers[base] = number
            name = f"{base[: 62 - len(str(number))].rstrip('-._')}-{number}"
        self._taken.add(name)
        return name


def slug(text: str) -> str:
    """The name nearest to a text that a fleet or replica may have; empty when there is none."""
    found = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:63].rstrip("-._")
    return found if is_slug(found) else ""


def shown(text: str, most: int = _SHOWN) -> str:
    """On one line, cut when it is long, without control characters and secrets in addresses."""
    line = concealed(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


_CREDENTIALS = re.compile(r"(?<=://)[^\s\"]*@|[^\s/\"'@]*:(?!//)[^\s\"'@]*@")
_QUERY = re.compile(r"\?[\w.~%\[\]-]+=[^\s\"]*")


def concealed(text: str) -> str:
    """With "…" in place of the user name and password in addresses, and of queries, which may hold keys."""
    return _QUERY.sub("?…", _CREDENTIALS.sub("…@", text))
