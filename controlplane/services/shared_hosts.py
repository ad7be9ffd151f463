"""Shared hosts: a write that makes fleets share a host and port, of which one exposes more than inference.

Clients of that fleet then reach, and with ``expose: all`` stop, the server that the other fleet has there. So
it is confirmed, whoever writes: also the administrator of all fleets, who may register a server at an address
that another team has taken for a fleet of its own before. :mod:`controlplane.access.replica_hosts` looks at
what a role for some fleets may write; this looks at what becomes of it.

Hosts are compared as they are written, in all forms of the same address
(:mod:`routing.contract.host_synonyms`), without DNS: a write waits for no lookup. So a name and its address
are two hosts here. What was so before the write is not asked about again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q

from controlplane.access import viewer
from controlplane.models import Fleet, Replica
from controlplane.services.confirmation import Consequence, named
from routing.contract.addresses import parse_base_url
from routing.contract.exposure import ALL, INFERENCE, Expose
from routing.contract.host_synonyms import LOOPBACK, identities

MOST_BESIDE = 20
"""Of more new URLs, all that is there is read instead."""

Exposes = Mapping[str, Expose | None]
"""Fleet → what it exposes. ``None``: it is older than the setting, and exposes everything."""


class Place(NamedTuple):
    """A host, in one form of its address, and a port."""

    host: str
    port: int


class Placement(NamedTuple):
    """A replica's URL in a fleet."""

    fleet: str
    url: str


@dataclass(frozen=True)
class Crossing:
    """A host and port where clients of one fleet reach the server of another."""

    authority: str
    """``host:port`` as a replica's URL has it."""
    exposes: Exposes
    """Of all fleets that have a replica there."""

    @property
    def words(self) -> str:
        told = [_told(name, self.exposes[name]) for name in sorted(self.exposes, key=_unseen_last)]
        return f"{self.authority} is shared by {named(list(dict.fromkeys(told)))}"


@dataclass(frozen=True)
class Sharing(Consequence):
    """All crossings that a write makes."""

    salt = "switchyard.shared_hosts"
    crossings: list[Crossing]

    @property
    def words(self) -> str:
        found = [crossing.words for crossing in self.crossings]
        return (
            f"Clients of a fleet reach another fleet's server from now on: {named(found, '; ')}. Set expose: "
            "inference, or use other hosts or ports."
        )

    @property
    def shown(self) -> object:
        return [[crossing.authority, sorted(crossing.exposes.items())] for crossing in self.crossings]


class HostChanges:
    """What a unit of work has changed of where fleets are and of what they expose."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._added: list[Placement] = []
        self._removed: list[Placement] = []
        self._exposed: dict[str, Expose | None] = {}

    def add(self, fleet: str, url: str) -> None:
        self._added.append(Placement(fleet, url))

    def remove(self, fleet: str, url: str) -> None:
        self._removed.append(Placement(fleet, url))

    def expose(self, fleet: str, before: Expose | None) -> None:
        """A fleet exposes something else than ``before``."""
        self._exposed.setdefault(fleet, before)

    def sharing(self) -> Sharing | None:
        """What the write makes of them, once all is written. A second time, with nothing written since, it
        reads nothing. At most one query."""
        added, removed, exposed = self._added, self._removed, self._exposed
        self._forget()
        if not added and not exposed:
            return None
        after = _Placements.read(None if exposed else [one.url for one in added])
        crossings = list(_new_crossings(after, added, removed, exposed)) if after.exposes else []
        return Sharing(crossings) if crossings else None


_AtPlaces = defaultdict[Place, Counter[Placement]]


class _Placements:
    """Where fleets are. Each URL is read at most once, and only where something is at its port."""

    def __init__(self, rows: Iterable[tuple[str, Expose | None, str]], known: dict[str, list[Place]]) -> None:
        self.exposes: dict[str, Expose | None] = {}
        self.all: list[Placement] = []
        self._places = known
        for fleet, expose, url in rows:
            self.exposes[fleet] = expose
            self.all.append(Placement(fleet, url))

    @classmethod
    def read(cls, beside: Collection[str] | None = None) -> "_Placements":
        """One query; nothing, where no fleet exposes more than inference or there is but one. ``beside``: all
        that may be at the host and port of one of these URLs is enough."""
        opened = Fleet.objects.exclude(expose=INFERENCE)
        others = Fleet.objects.exclude(pk=OuterRef("fleet_id"))
        rows = Replica.objects.filter(Exists(opened), Exists(others)).order_by("fleet__name", "name")
        known: dict[str, list[Place]] = {}
        if beside is not None and len(beside) <= MOST_BESIDE:
            known = {url: _places(url) for url in beside}
            may_be = (_may_be_at(place) for places in known.values() for place in places)
            rows = rows.filter(reduce(or_, may_be, Q()))
        return cls(rows.values_list("fleet__name", "fleet__expose", "url"), known)

    def places(self, url: str) -> list[Place]:
        if url not in self._places:
            self._places[url] = _places(url)
        return self._places[url]

    def at(self, wanted: Container[Place], placements: Iterable[Placement]) -> "_AtPlaces":
        """Which of the placements are at each of the wanted places."""
        found: _AtPlaces = defaultdict(Counter)
        for placement in placements:
            for place in self.places(placement.url):
                if place in wanted:
                    found[place][placement] += 1
        return found

    def there(self, wanted: Collection[Place]) -> "_AtPlaces":
        """All that is at each of these places."""
        ports = {str(place.port) for place in wanted}
        return self.at(wanted, (one for one in self.all if _authority(one.url).rpartition(":")[2] in ports))


def _new_crossings(
    after: _Placements, added: list[Placement], removed: list[Placement], exposed: Exposes
) -> Iterator[Crossing]:
    changed = [*added, *(one for one in after.all if one.fleet in exposed)]
    wanted = {place for one in changed for place in after.places(one.url)}
    came, left = after.at(wanted, added), after.at(wanted, removed)
    exposed_before = {**after.exposes, **exposed}
    told = set()
    for place, there in after.there(wanted).items():
        fleets = {one.fleet: after.exposes[one.fleet] for one in there}
        if len(fleets) < 2:
            continue
        then = there + left[place] - came[place]
        before = {one.fleet: exposed_before[one.fleet] for one in then if one.fleet in fleets}
        spellings = {_authority(one.url) for one in there}
        crossing = Crossing(min(spellings, key=lambda text: (len(text), text)), fleets)
        if _opens_more(before, fleets) and (shown := (crossing.authority, *fleets)) not in told:
            told.add(shown)
            yield crossing


def _opens_more(before: Exposes, after: Exposes) -> bool:
    """Whether clients of a fleet reach more of the others at a place, or others than before."""
    for fleet, expose in after.items():
        if expose == INFERENCE:
            continue
        if fleet not in before or not _covers(before[fleet], expose) or after.keys() - before.keys():
            return True
    return False


def _covers(before: Expose | None, after: Expose | None) -> bool:
    """Whether all that is exposed was before."""
    if before in (None, ALL) or after == INFERENCE:
        return True
    if not isinstance(before, list) or not isinstance(after, list):
        return False
    return all(any(f"{path}/".startswith(f"{open_path}/") for open_path in before) for path in after)


def _places(url: str) -> list[Place]:
    """None of what is no URL: that is refused elsewhere."""
    try:
        base = parse_base_url(url)
    except ValueError:
        return []
    return [Place(host, base.port) for host in identities(base.host)]


def _may_be_at(place: Place) -> Q:
    """Rows whose URL may be at a place: of the others not even the URL is read. They are in normal form, so a
    host is written in one way, but for a last dot of a name, and for IPv6, which may hold an IPv4 address."""
    port = Q(url__contains=f":{place.port}")
    if place.host == LOOPBACK or ":" in place.host:
        return port
    written = Q(url__contains="://[")
    for end in ("", "."):
        written |= Q(url__icontains=f"://{place.host}{end}:")
    return port & written


def _authority(url: str) -> str:
    """``host:port`` of a URL in its normal form, as all stored ones are."""
    return url.partition("://")[2].partition("/")[0]


def _unseen_last(fleet: str) -> tuple[bool, str]:
    return not viewer.may_see(fleet), fleet


def _told(fleet: str, expose: Expose | None) -> str:
    if not viewer.may_see(fleet):
        return viewer.UNSEEN
    if expose is None:
        return f"{fleet} (exposes everything, as it has no expose)"
    return f"{fleet} (exposes {expose if isinstance(expose, str) else named(expose)})"
