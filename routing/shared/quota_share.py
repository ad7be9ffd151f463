"""Quota share: one proxy's share of a limit, where several proxies serve the same replicas.

Each proxy counts its own load only, so a limit that applies to all of them is divided: of 10 slots three
proxies get 4, 3 and 3, by the order of their names. The division is not exact. Each proxy gets one slot at
least, so a limit below the number of proxies is exceeded. While a proxy comes or goes, two may disagree for a
few seconds on how many they are.

An increase in proxies counts at once, a decrease only after a while. Otherwise, after Redis was emptied, the
first proxy to come back would assume that it is alone.

The shares are equal also where proxies are at several sites and prefer their own
(:mod:`routing.balancing.locality.spillover`), although slots at a proxy's own site are then reserved for
proxies that seldom use them. These alternatives were tried in simulation, with two sites and a proxy at each:

- A share for each proxy that reports spill-over, and one slot for each that does not. From half load on
  both report it. Then each proxy's share at its own site is small again, and stays small. And requests wait
  for the seconds until a larger share arrives.
- Shares in proportion to each proxy's requests. At half load 2 % of the requests spill over, not 22 %. But
  requests in flight keep using a share that has shrunk: with responses of 20 s, 10 were in flight where 8
  are allowed.

A correct solution needs leases of slots, replica by replica.
"""

SHRINK_AFTER_S = 3.0


class QuotaShare:
    """One proxy's share, read at each check of a limit: it changes as proxies come and go."""

    __slots__ = ("_fewer_since", "count", "position")

    def __init__(self, position: int = 0, count: int = 1) -> None:
        self.position = position
        """This proxy's rank among all, from 0."""
        self.count = count
        """Live proxies that are not draining, this one among them; 1 until others are known."""
        self._fewer_since: float | None = None

    def update(self, position: int, count: int, now: float) -> bool:
        """Take over what Redis says at ``now`` (monotonic seconds). Fewer proxies count only after
        ``SHRINK_AFTER_S``. Returns whether the share has changed."""
        if count < self.count:
            if self._fewer_since is None:
                self._fewer_since = now
            if now - self._fewer_since < SHRINK_AFTER_S:
                return False
        self._fewer_since = None
        return self.set(position, count)

    def set(self, position: int, count: int) -> bool:
        """Take this over at once. Returns whether the share has changed."""
        if (position, count) == (self.position, self.count):
            return False
        self.position, self.count = position, count
        return True

    def share_of(self, limit: int) -> int:
        """This proxy's share of a limit: at least 1, unless the limit is 0."""
        count = self.count
        if count == 1 or limit <= 0:
            return limit
        return max(1, limit // count + (self.position < limit % count))

    def __repr__(self) -> str:
        return f"<QuotaShare {self.position + 1} of {self.count}>"
