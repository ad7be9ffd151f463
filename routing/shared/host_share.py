"""Which part of a limit one proxy takes, where several serve the same replicas.

Each proxy counts its own load only, so a limit that is to hold for all of them is shared out: of 10 places
three proxies take 4, 3 and 3, by the order of their names. The limits hold softly. Each takes one place at
least, so that a limit below the number of proxies is passed by some; and while a proxy comes or goes, two may
think differently of how many they are for a few seconds.

More proxies count at once, fewer only after a while: of those that have just come back to a Redis that was
emptied, the first would think that it is alone.

*Sites.* Where proxies prefer their own site (:mod:`routing.policies.locality`), those of others leave most of
a replica's places unused, and a wall through the middle would have its own proxies spill while places are
free beside them. So of a replica at a site each proxy takes one place, and what is more than that is shared
out among those that use it: the proxies of that site and of none, and those of others that say that their
requests go to other sites. They begin with the one place, and take more only once the rest must have heard of
it and left it to them, after ``FEWER_AFTER_S``; the rest takes it back only so long after it was last said.
Whoever's part grows waits, whoever's part shrinks does not, so the parts never add up to more than the limit
but for what is still in flight. A site without a proxy is everybody's.
"""

from collections.abc import Collection, Iterable
from math import inf
from typing import NamedTuple

FEWER_AFTER_S = 3.0


class Sharer(NamedTuple):
    """A live proxy that is not draining."""

    name: str
    site: str = ""
    """Where it is; empty: nobody said."""


class Spill(NamedTuple):
    """Requests for a fleet go to replicas of other sites than the proxy's own."""

    fleet: str
    proxy: str


class HostShare:
    """One proxy's share, read where a limit is looked at: it changes as proxies come and go."""

    __slots__ = (
        "_own",
        "_parts",
        "_said_since",
        "_sharers_heard",
        "_spills_heard",
        "count",
        "position",
        "sharers",
        "spills",
    )

    def __init__(self, position: int = 0, count: int = 1) -> None:
        self.position = position
        """This proxy's place among all, from 0."""
        self.count = count
        """Live proxies that are not draining, this one among them; 1 until others are known."""
        self.sharers: tuple[Sharer, ...] = ()
        """Who they are, in order; empty: unknown."""
        self.spills: frozenset[Spill] = frozenset()
        """Of what they say, that which counts."""
        self._own = ""
        self._sharers_heard: dict[Sharer, float] = {}
        self._spills_heard: dict[Spill, float] = {}
        """Of the others: when each was last heard of."""
        self._said_since: dict[Spill, float] = {}
        """Of this proxy's own: since when they are heard without a break."""
        self._parts: dict[tuple[str, str], tuple[int, int]] = {}

    def begin_with(
        self, own: Sharer, sharers: Iterable[Sharer], spills: Collection[Spill], now: float
    ) -> None:
        """As another worker of this proxy knows it, at once."""
        self._sharers_heard = {one: now for one in sharers if one != own}
        self._spills_heard = {one: now for one in spills if one.proxy != own.name}
        self._said_since = {one: -inf for one in spills if one.proxy == own.name}
        self._count(own, now)

    def heard(self, own: Sharer, sharers: Iterable[Sharer], spills: Collection[Spill], now: float) -> bool:
        """So it is said to be now, in monotonic seconds; whether anything changes by it."""
        self._sharers_heard |= {one: now for one in sharers if one != own}
        self._spills_heard |= {one: now for one in spills if one.proxy != own.name}
        said = (one for one in spills if one.proxy == own.name)
        self._said_since = {one: self._said_since.get(one, now) for one in said}
        return self._count(own, now)

    def _count(self, own: Sharer, now: float) -> bool:
        """Forget who was not heard of for a while, and take what that makes; whether it is news."""
        others = {one: at for one, at in self._sharers_heard.items() if now - at < FEWER_AFTER_S}
        theirs = {one: at for one, at in self._spills_heard.items() if now - at < FEWER_AFTER_S}
        ours = [one for one, since in self._said_since.items() if now - since >= FEWER_AFTER_S]
        self._sharers_heard, self._spills_heard = others, theirs
        sharers, spills = tuple(sorted([own, *others])), frozenset([*theirs, *ours])
        if (own.name, sharers, spills) == (self._own, self.sharers, self.spills):
            return False
        self._own, self.sharers, self.spills, self._parts = own.name, sharers, spills, {}
        self.change(sharers.index(own), len(sharers))
        return True

    def change(self, position: int, count: int) -> bool:
        """Be this one of so many, wherever they are; whether it is news."""
        if (position, count) == (self.position, self.count):
            return False
        self.position, self.count = position, count
        return True

    def of(self, limit: int) -> int:
        """This proxy's part of a limit: at least 1, except of nothing."""
        count = self.count
        if count == 1 or limit <= 0:
            return limit
        return max(1, limit // count + (self.position < limit % count))

    def of_site(self, limit: int, fleet: str, site: str) -> int:
        """This proxy's part of the places of a replica that is at a site, where sites matter to the fleet: at
        least 1."""
        if not self.sharers:
            return self.of(limit)
        part = self._parts.get((fleet, site))
        if part is None:
            self._parts[fleet, site] = part = self._part(fleet, site)
        position, users = part
        more = limit - self.count
        return 1 if more <= 0 or position < 0 else 1 + more // users + (position < more % users)

    def _part(self, fleet: str, site: str) -> tuple[int, int]:
        """This proxy's place among those that use the site's replicas, below 0 if it does not, and how many
        these are."""
        homes = ("", site)
        users = [one.name for one in self.sharers if one.site in homes]
        if users:
            users += [
                one.name for one in self.sharers if one.site not in homes and (fleet, one.name) in self.spills
            ]
        else:
            users = [one.name for one in self.sharers]
        return users.index(self._own) if self._own in users else -1, len(users)

    def __repr__(self) -> str:
        return f"<HostShare {self.position + 1} of {self.count}>"
