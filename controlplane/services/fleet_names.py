"""Fleet names: which fleet each name, alias, adapter and match leads to.

Each leads to one fleet only. One unit of work reads them once and follows its own changes, since nobody else
writes meanwhile: a file of thousands of fleets would else read all of them for each.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.access.viewer import fleet_in_words
from controlplane.models import Fleet
from routing.contract.fleet_file.cross_checks import OTHER_NAMES
from routing.contract.table import Match

_FIELDS = ("name", *OTHER_NAMES, "match")


class FleetNames:
    """As the database has them, and as :meth:`put` and :meth:`remove` say since."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """``rows``: each with a fleet's name and what else leads to it."""
        self._words: dict[str, tuple[str, str]] = {}
        """Name, alias or adapter → its fleet, and ``an alias``."""
        self._matches: dict[Match, str] = {}
        self._of: dict[str, tuple[list[str], list[Match]]] = {}
        """Fleet → its keys in both."""
        for row in rows:
            self._put(row)

    @classmethod
    def read(cls) -> "FleetNames":
        return cls(Fleet.objects.values(*_FIELDS))

    def owner_words(self, name: str, other_than: str) -> str:
        """``an alias of fleet x``, if that is a fleet ``other_than`` this one; else empty. The fleet is named
        to those who may see it."""
        fleet, words = self._words.get(name, (other_than, ""))
        return "" if fleet == other_than else f"{words} of {fleet_in_words(fleet)}"

    def owner_of_match(self, match: Match, other_than: str) -> str:
        """The fleet that it leads to, likewise."""
        fleet = self._matches.get(match, "")
        return "" if fleet == other_than else fleet

    def put(self, fleet: Fleet) -> None:
        """It is new, or has changed."""
        self.remove(fleet.name)
        self._put({field: getattr(fleet, field) for field in _FIELDS})

    def remove(self, fleet: str) -> None:
        names, matches = self._of.pop(fleet, ([], []))
        for name in names:
            if self._words.get(name, ("",))[0] == fleet:
                del self._words[name]
        for match in matches:
            if self._matches.get(match) == fleet:
                del self._matches[match]

    def _put(self, row: Mapping[str, Any]) -> None:
        fleet = row["name"]
        words = {fleet: "the name"}
        for field, word in OTHER_NAMES.items():
            words.update(dict.fromkeys(row[field], f"an {word}"))
        matches = msgspec.convert(row["match"], list[Match])
        self._of[fleet] = list(words), matches
        self._words.update((name, (fleet, text)) for name, text in words.items())
        self._matches.update(dict.fromkeys(matches, fleet))
