"""Fair shares (token bucket): a replica in doubt gets no more requests than its part by weight.

Theory. With each request that goes to a replica of its site, a replica in doubt earns its part of one, by
weight and slow start. It is a candidate while it has earned a whole one, and pays with the request that it
gets. Two at most are saved up. So it never gets more than its part, whichever strategy picks, and less if the
strategy prefers others. If all replicas are in doubt, none is held to anything. Where none of the others has
a slot it gets a few requests a second beyond that: they may hang, and then its answers show it.

Source: the token bucket (Turner, "New Directions in Communications", 1986).
"""

from collections.abc import Container, Iterator, Sequence

from routing.balancing.replica.state import Replica

MOST_CREDIT = 2.0
BEYOND_EVERY_S = 0.25


class FairShares:
    """Holds the doubted replicas of one pool to their part, by weight, of the requests of their site."""

    def __init__(self) -> None:
        self._parts: list[tuple[Replica, float]] = []
        """Each of the doubted, with its part."""
        self._others: list[Replica] = []

    def follow(self, eligible: Sequence[Replica]) -> None:
        """These are asked from now on."""
        self._parts, self._others = [], []
        doubted = [replica for replica in eligible if _is_held(replica)]
        if not doubted or len(doubted) == len(eligible):
            return
        weights: dict[str, float] = {}
        for replica in eligible:
            site = replica.spec.site
            weights[site] = weights.get(site, 0.0) + replica.share
        self._parts = [(one, one.share / weights[one.spec.site]) for one in doubted]
        self._others = [replica for replica in eligible if not _is_held(replica)]

    @property
    def hold(self) -> bool:
        """Whether any replica is held to its part."""
        return bool(self._parts)

    def candidates(
        self, eligible: Sequence[Replica], members: Container[Replica] | None = None
    ) -> Sequence[Replica]:
        """Of these replicas, all that have a part left. ``members``: they are the eligible ones of these;
        ``None``: they are all that :meth:`follow` was given."""
        spent = [replica for replica, _ in self._parts if replica.doubt.credit < 1.0]
        if not spent:
            return eligible
        if members is None and len(spent) == len(self._parts):
            return self._others
        return [replica for replica in eligible if replica not in spent]

    def beyond(self, now: float) -> Iterator[Replica]:
        """Those without a part left that are due for a request all the same, because no other replica has a
        slot."""
        for replica, _ in self._parts:
            doubt = replica.doubt
            if doubt.credit < 1.0 and now - doubt.beyond_at >= BEYOND_EVERY_S:
                doubt.beyond_at = now
                yield replica

    def count(self, picked: Replica) -> None:
        """A request has gone to this replica."""
        site = picked.spec.site
        for replica, part in self._parts:
            doubt = replica.doubt
            if replica.spec.site == site:
                doubt.credit = min(MOST_CREDIT, doubt.credit + part)
            if replica is picked:
                doubt.credit = max(0.0, doubt.credit - 1.0)


def _is_held(replica: Replica) -> bool:
    return replica.doubt.since > 0 or replica.ejection.results.is_undecided
