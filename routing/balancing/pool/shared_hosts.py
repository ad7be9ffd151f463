"""Shared hosts: which fleets have replicas at the same address, so that a request of one may reach the
model of another. Kept over table swaps: a swap that moves no replica costs one comparison."""

from collections.abc import Iterable, Iterator

from routing.balancing.replica.state import Replica


class SharedHosts:
    """The addresses of all fleets' replicas. A fleet shares a host if another has a replica at the same host
    and port, below the same path prefix or further down."""

    def __init__(self) -> None:
        self._urls: dict[str, frozenset[str]] = {}
        self._users: dict[str, str | set[str]] = {}
        """Host and port → ``fleet/prefix`` of who is there: text where it is one, as nearly always, so that
        thousands of replicas are no work for the garbage collector."""

    def take(self, fleet: str, replicas: Iterable[Replica]) -> set[str]:
        """These are a fleet's replicas from now on. Returns the fleets whose hosts may have become shared, or
        no longer are; empty: none."""
        urls = frozenset([replica.spec.url for replica in replicas])
        before = self._urls.get(fleet, frozenset())
        if urls == before:
            return set()
        touched = {fleet}
        for authority, prefix in _places(before - urls):
            self._remove(authority, f"{fleet}{prefix}", touched)
        for authority, prefix in _places(urls):  # also those that differed by scheme alone
            self._add(authority, f"{fleet}{prefix}", touched)
        if urls:
            self._urls[fleet] = urls
        else:
            self._urls.pop(fleet, None)
        return touched

    def is_shared(self, fleet: str) -> bool:
        """Whether another fleet's requests may reach one of its replicas' hosts."""
        for authority, prefix in _places(self._urls.get(fleet, ())):
            users = self._users[authority]
            if isinstance(users, str):
                continue
            for user in users:
                other, _, theirs = user.partition("/")
                if other != fleet and f"/{theirs}/".replace("//", "/").startswith(f"{prefix}/"):
                    return True
        return False

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


def _places(urls: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Host with port, and path prefix, of base URLs in their normal form."""
    for url in urls:
        authority, slash, prefix = url.partition("://")[2].partition("/")
        yield authority, slash + prefix


def _fleet(user: str) -> str:
    return user.partition("/")[0]
