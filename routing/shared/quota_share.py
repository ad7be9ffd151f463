"""Quota share: which part of a limit one proxy takes, where several serve the same replicas.

Each proxy counts its own load only, so a limit that is to hold for all of them is shared out: of 10 places
three proxies take 4, 3 and 3, by the order of their names. The limits hold softly. Each takes one place at
least, so that a limit below the number of proxies is passed by some; and while a proxy comes or goes, two may
think differently of how many they are for a few seconds.

More proxies count at once, fewer only after a while: of those that have just come back to a Redis that was
emptied, the first would think that it is alone.

The parts are equal also where proxies are at several sites and ask those of their own first
(:mod:`routing.balancing.locality.spillover`), though places at home are so left to others that seldom use
them. What else was tried, in simulation, two sites with a proxy each:

- A part for who says that its requests go elsewhere, and one place for who does not. From a load of a half
  on both say so, which makes the parts at home small again and keeps them so; and what a proxy is given some
  seconds late its requests have waited for meanwhile.
- Parts by how many requests each has. At a load of a half 2 % of the requests leave and not 22; but what
  shrinks for one is taken for as long as its requests stay: with answers of 20 s, 10 were in flight of 8 that
  may be.

To be right it takes leases of places, replica by replica.
"""

SHRINK_AFTER_S = 3.0


class QuotaShare:
    """One proxy's share, read where a limit is looked at: it changes as proxies come and go."""

    __slots__ = ("_fewer_since", "count", "position")

    def __init__(self, position: int = 0, count: int = 1) -> None:
        self.position = position
        """This proxy's place among all, from 0."""
        self.count = count
        """Live proxies that are not draining, this one among them; 1 until others are known."""
        self._fewer_since: float | None = None

    def heard(self, position: int, count: int, now: float) -> bool:
        """So it is said to be now, in monotonic seconds; whether it is taken and news."""
        if count < self.count:
            if self._fewer_since is None:
                self._fewer_since = now
            if now - self._fewer_since < SHRINK_AFTER_S:
                return False
        self._fewer_since = None
        return self.change(position, count)

    def change(self, position: int, count: int) -> bool:
        """Take this at once; whether it is news."""
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

    def __repr__(self) -> str:
        return f"<QuotaShare {self.position + 1} of {self.count}>"
