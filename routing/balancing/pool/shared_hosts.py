"""Shared hosts: which fleets have replicas at the same address, so that a request of one may reach the
model of another.

Hosts are compared as :mod:`routing.contract.host_synonyms` says: in their literal synonyms, and by the
addresses that their names have, as far as those are known (:meth:`SharedHosts.found`).

Theory. Each fleet has its places: host with port, by all that the host may be, and path prefix. A table swap
applies the difference between two sets of places, which costs little per replica that moves and next to
nothing for all others, as long as they are not at one host: then the others there are looked at once. Reading
thousands of URLs takes longer than a swap may, so that this is done before, in steps
(:meth:`SharedHosts.prepare`).
"""

from collections.abc import Collection, Generator, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from urllib.parse import unquote

from routing.contract.addresses import DEFAULT_PORTS
from routing.contract.host_synonyms import identities, is_address

HostAndPrefix = tuple[str, str]
"""Host and port; path prefix."""
_Users = dict[str, set[str]]
"""Of one host and port: path prefix → fleets that have a replica there."""
_PER_STEP = 200


class _Address(NamedTuple):
    """Where a base URL leads."""

    host: str
    port: str
    prefix: str


class _Read(NamedTuple):
    """What the URLs of one fleet say."""

    urls: frozenset[str]
    places: dict[HostAndPrefix, int]
    """Each with how many of the URLs lead there."""
    names: dict[str, tuple[str, ...]]
    """Hosts that are names, each with the URLs that have it."""


_NOTHING = _Read(frozenset(), {}, {})


class SharedHosts:
    """The addresses of all fleets' replicas. A fleet shares a host if another has a replica at the same host
    and port, below the same path prefix or further down."""

    def __init__(self) -> None:
        self._fleets: dict[str, _Read] = {}
        self._prepared: dict[str, _Read] = {}
        """Of fleets whose next table is about to be applied."""
        self._users: dict[str, str | _Users] = {}
        """Host and port → who is there: ``fleet/prefix`` where it is one, as nearly always, so that thousands
        of replicas are no work for the garbage collector."""
        self._named: dict[str, set[str]] = {}
        """Host that is a name → fleets that have it."""
        self._addresses: dict[str, tuple[str, ...]] = {}
        """Of hosts that are names."""

    @property
    def names(self) -> Collection[str]:
        """The hosts whose addresses are of use: names, where there is more than one fleet."""
        return self._named.keys() if len(self._fleets) > 1 else ()

    def prepare(self, fleet: str, urls: Collection[str]) -> Generator[None, None, None]:
        """Read, in steps, what :meth:`take` is about to be given. Changes nothing else."""
        self._prepared.pop(fleet, None)
        wanted = frozenset(urls)
        if wanted != self._fleets.get(fleet, _NOTHING).urls:
            self._prepared[fleet] = yield from self._read(wanted)

    def take(self, fleet: str, urls: Iterable[str]) -> set[str]:
        """These are the URLs of a fleet's replicas from now on. Returns the fleets whose hosts may have
        become shared, or no longer are; empty: none."""
        wanted, before = frozenset(urls), self._fleets.get(fleet, _NOTHING)
        prepared = self._prepared.pop(fleet, None)
        if wanted == before.urls:
            return set()
        if prepared is None or prepared.urls != wanted:
            prepared = self._read_at_once(wanted)
        return self._replace(fleet, before, prepared)

    def found(self, host: str, addresses: tuple[str, ...]) -> set[str]:
        """DNS has these addresses for a host from now on. Returns what :meth:`take` does."""
        fleets = self._named.get(host)
        if fleets is None or self._addresses.get(host, ()) == addresses:
            return set()
        before = {fleet: self._places_of(self._fleets[fleet].names[host]) for fleet in fleets}
        self._addresses[host] = addresses
        self._prepared.clear()  # read with the former ones
        touched: set[str] = set()
        for fleet, gone in before.items():
            places = self._fleets[fleet].places
            was_there = set(places)
            for place in gone:
                places[place] -= 1
                if not places[place]:
                    del places[place]
            for place in self._places_of(self._fleets[fleet].names[host]):
                places[place] = places.get(place, 0) + 1
            self._move(fleet, was_there, places.keys(), touched)
        return touched

    def is_shared(self, fleet: str) -> bool:
        """Whether another fleet's requests may reach one of its replicas' hosts."""
        return any(True for _ in self._below(fleet))

    def further_down(self, fleet: str) -> frozenset[bytes]:
        """Where paths of this fleet's requests enter the path prefix of another's replica at the same host:
        each relative to the fleet's own prefix, decoded and in lower case."""
        relative = {theirs[len(prefix) :] for prefix, theirs in self._below(fleet) if theirs != prefix}
        return frozenset(text.encode(errors="surrogateescape").lower() for text in relative)

    def _below(self, fleet: str) -> Iterator[tuple[str, str]]:
        """This fleet's prefixes, each with those of other fleets there that are the same or further down."""
        for authority in {authority for authority, _ in self._fleets.get(fleet, _NOTHING).places}:
            users = self._users[authority]
            if isinstance(users, str):
                continue
            for theirs, fleets in users.items():
                if len(fleets) == 1 and fleet in fleets:
                    continue
                for prefix in _at_or_above(theirs):
                    if fleet in users.get(prefix, ()):
                        yield prefix, theirs

    def _read(self, urls: frozenset[str]) -> Generator[None, None, _Read]:
        places: dict[HostAndPrefix, int] = {}
        names: dict[str, tuple[str, ...]] = {}
        for number, url in enumerate(urls, 1):
            host = _address_of(url).host
            if not is_address(host):
                names[host] = (*names.get(host, ()), url)
            for place in self._places_of((url,)):
                places[place] = places.get(place, 0) + 1
            if number % _PER_STEP == 0:
                yield
        return _Read(urls, places, names)

    def _places_of(self, urls: Iterable[str]) -> list[HostAndPrefix]:
        """One may be there more than once."""
        places: list[HostAndPrefix] = []
        for url in urls:
            host, port, prefix = _address_of(url)
            found = identities(host, self._addresses.get(host, ()))
            places.extend((f"{identity} {port}", prefix) for identity in found)
        return places

    def _read_at_once(self, urls: frozenset[str]) -> _Read:
        steps = self._read(urls)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                read: _Read = end.value
                return read

    def _replace(self, fleet: str, before: _Read, after: _Read) -> set[str]:
        touched: set[str] = {fleet}
        self._move(fleet, before.places.keys(), after.places.keys(), touched)
        self._follow_names(fleet, before.names.keys(), after.names.keys())
        if after.urls:
            self._fleets[fleet] = after
        else:
            self._fleets.pop(fleet, None)
        return touched

    def _move(
        self,
        fleet: str,
        before: AbstractSet[HostAndPrefix],
        after: AbstractSet[HostAndPrefix],
        touched: set[str],
    ) -> None:
        gone, new = before - after, after - before
        for authority, prefix in gone:
            self._remove(authority, prefix, fleet, touched)
        for authority, prefix in new:
            self._add(authority, prefix, fleet, touched)
        if touched:
            touched.add(fleet)

    def _follow_names(self, fleet: str, before: AbstractSet[str], after: AbstractSet[str]) -> None:
        for host in before - after:
            fleets = self._named[host]
            fleets.discard(fleet)
            if not fleets:
                del self._named[host]
                self._addresses.pop(host, None)
        for host in after - before:
            self._named.setdefault(host, set()).add(fleet)

    def _add(self, authority: str, prefix: str, fleet: str, touched: set[str]) -> None:
        users = self._users.get(authority)
        if users is None:
            self._users[authority] = f"{fleet}{prefix}"
            return
        if isinstance(users, str):
            other, slash, theirs = users.partition("/")
            users = self._users[authority] = {slash + theirs: {other}}
        users.setdefault(prefix, set()).add(fleet)
        _touch(users, prefix, fleet, touched)

    def _remove(self, authority: str, prefix: str, fleet: str, touched: set[str]) -> None:
        users = self._users.get(authority)
        if not isinstance(users, dict):
            self._users.pop(authority, None)
            return
        users[prefix].discard(fleet)
        if not users[prefix]:
            del users[prefix]
        _touch(users, prefix, fleet, touched)
        if len(users) == 1:
            ((left, fleets),) = users.items()
            if len(fleets) == 1:
                (other,) = fleets
                self._users[authority] = f"{other}{left}"


def _touch(users: _Users, prefix: str, fleet: str, touched: set[str]) -> None:
    """One of this fleet's replicas came to this prefix or left it, where others are. What is below others'
    prefixes is theirs to know, and not the other way round. Thousands may be behind one gateway."""
    touched.add(fleet)
    for above in _at_or_above(prefix):
        touched.update(users.get(above, ()))


def _at_or_above(prefix: str) -> Iterator[str]:
    """``/a/b``, ``/a`` and the empty one, of ``/a/b``."""
    yield prefix
    while prefix:
        prefix = prefix[: prefix.rindex("/")]
        yield prefix


def _address_of(url: str) -> _Address:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, str(DEFAULT_PORTS.get(scheme.lower(), ""))
    return _Address(host.strip("[]").lower(), port, _prefix(path) if slash else "")


def _prefix(path: str) -> str:
    """As the paths of requests are compared: decoded, without empty segments and ``;`` parameters."""
    segments = unquote(path, errors="surrogateescape").split("/")
    names = (segment.partition(";")[0] for segment in segments)
    return "".join([f"/{name}" for name in names if name])
