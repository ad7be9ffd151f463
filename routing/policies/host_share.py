"""Which part of a limit one proxy takes, where several serve the same replicas.

Each proxy counts its own load only, so a limit that is to hold for all of them is shared out: of 10 places
three proxies take 4, 3 and 3, by the order of their names. The limits hold softly. Each takes one place at
least, so that a limit below the number of proxies is passed by some; and while a proxy comes or goes, two may
think differently of how many they are for a few seconds.

More proxies count at once, fewer only after a while: of those that have just come back to a Redis that was
emptied, the first would think that it is alone.
"""

FEWER_AFTER_S = 3.0


class HostShare:
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
            if now - self._fewer_since < FEWER_AFTER_S:
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
        return f"<HostShare {self.position + 1} of {self.count}>"
