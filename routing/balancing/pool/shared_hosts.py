"""Shared hosts: which fleets have replicas at the same address, so that a request of one may reach the
model of another. Kept over table swaps: a swap that moves no replica costs one comparison.

Hosts are compared as :mod:`routing.balancing.pool.host_synonyms` says: in their literal synonyms, and by the
addresses that their names have, as far as those are known (:meth:`SharedHosts.found`)."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from routing.balancing.pool.host_synonyms import identities, is_address
from routing.balancing.replica.state import Replica
from routing.contract.addresses import DEFAULT_PORTS

_PLAIN = re.compile(r"https?://((?!127\.|0\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]+)(/[^%]*)?\Z")
"""The usual base URL, of which thousands are read: it has one form, but for IPv6 forms of the address."""


class _Place(NamedTuple):
    """Where a base URL leads."""

    host: str
    port: str
    prefix: str


class SharedHosts:
    """The addresses of all fleets' replicas. A fleet shares a host if another has a replica at the same host
    and port, below the same path prefix or further down."""

    def __init__(self) -> None:
        self._urls: dict[str, frozenset[str]] = {}
        self._users: dict[str, str | set[str]] = {}
        """Host and port → ``fleet/prefix`` of who is there: text where it is one, as nearly always, so that
        thousands of replicas are no work for the garbage collector."""
        self._named: dict[str, set[tuple[str, str]]] = {}
        """Host that is a name → fleets with their URLs there."""
        self._addresses: dict[str, tuple[str, ...]] = {}
        """Of hosts that are names."""

    @property
    def names(self) -> Collection[str]:
        """The hosts whose addresses are of use: names, where there is more than one fleet."""
        return self._named.keys() if len(self._urls) > 1 else ()

    def take(self, fleet: str, replicas: Iterable[Replica]) -> set[str]:
        """These are a fleet's replicas from now on. Returns the fleets whose hosts may have become shared, or
        no longer are; empty: none."""
        urls = frozenset([replica.spec.url for replica in replicas])
        before = self._urls.get(fleet, frozenset())
        if urls == before:
            return set()
        touched = {fleet}
        self._remove_all(fleet, before - urls, touched)
        for url in before - urls:
            self._forget(fleet, url)
        for url in urls - before:
            if _PLAIN.match(url) is None and not is_address(host := _place_of(url).host):
                self._named.setdefault(host, set()).add((fleet, url))
        self._add_all(fleet, urls, touched)  # all: some may be at the place of one that was removed
        if urls:
            self._urls[fleet] = urls
        else:
            self._urls.pop(fleet, None)
        return touched

    def found(self, host: str, addresses: tuple[str, ...]) -> set[str]:
        """DNS has these addresses for a host from now on. Returns what :meth:`take` does."""
        users = self._named.get(host)
        before = self._addresses.get(host, ())
        if users is None or before == addresses:
            return set()
        touched: set[str] = set()
        self._addresses[host] = addresses
        gone = set(identities(host, before)) - set(identities(host, addresses))
        for fleet, url in users:
            _, port, prefix = _place_of(url)
            for identity in gone:
                self._remove(f"{identity}:{port}", f"{fleet}{prefix}", touched)
        for fleet, url in users:
            # All, because another URL may lead to the place that was removed.
            self._add_all(fleet, self._urls[fleet] if gone else (url,), touched)
        if touched:
            touched.update(fleet for fleet, _ in users)
        return touched

    def is_shared(self, fleet: str) -> bool:
        """Whether another fleet's requests may reach one of its replicas' hosts."""
        for authority, prefix in self._places(self._urls.get(fleet, ())):
            users = self._users[authority]
            if isinstance(users, str):
                continue
            for user in users:
                other, _, theirs = user.partition("/")
                if other != fleet and f"/{theirs}/".replace("//", "/").startswith(f"{prefix}/"):
                    return True
        return False

    def _places(self, urls: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Each host, by all that it may be, with its port; and the path prefix."""
        for url in urls:
            plain = _PLAIN.match(url)
            if plain is not None:
                yield plain[1], (plain[2] or "").rstrip("/")
                continue
            host, port, prefix = _place_of(url)
            for identity in identities(host, self._addresses.get(host, ())):
                yield f"{identity}:{port}", prefix

    def _forget(self, fleet: str, url: str) -> None:
        if _PLAIN.match(url) is not None:
            return
        host = _place_of(url).host
        users = self._named.get(host)
        if users is not None:
            users.discard((fleet, url))
            if not users:
                del self._named[host]
                self._addresses.pop(host, None)

    def _add_all(self, fleet: str, urls: Iterable[str], touched: set[str]) -> None:
        for authority, prefix in self._places(urls):
            self._add(authority, f"{fleet}{prefix}", touched)

    def _remove_all(self, fleet: str, urls: Iterable[str], touched: set[str]) -> None:
        for authority, prefix in self._places(urls):
            self._remove(authority, f"{fleet}{prefix}", touched)

    def _add(self, authority: str, user: str, touched: set[str]) -> None:
        users = self._users.get(authority)
        if users is None:
            self._users[authority] = user
        elif isinstance(users, set):
            users.add(user)
            touched.update(map(_fleet, users))
        elif users != user:
            self._users[authority] = {users, user}
            touched.add(_fleet(users))

    def _remove(self, authority: str, user: str, touched: set[str]) -> None:
        users = self._users.get(authority)
        if isinstance(users, set):
            users.discard(user)
            touched.update(map(_fleet, users))
            if len(users) == 1:
                self._users[authority] = users.pop()
        elif users == user:
            del self._users[authority]


def _place_of(url: str) -> _Place:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, str(DEFAULT_PORTS.get(scheme.lower(), ""))
    return _Place(host.strip("[]").lower(), port, slash + unquote(path).rstrip("/"))


def _fleet(user: str) -> str:
    return user.partition("/")[0]
