"""Adapter homes (LoRA affinity): an adapter's requests meet at the replicas that likely have it loaded.

Theory. A model server keeps some adapters in its device's memory, and loads others when they are asked for.
While requests that run use all of its slots for adapters, a request for another one waits until one of these
has ended. So it is better that an adapter's requests meet at few replicas than that each replica serves all
adapters in turn.

Each adapter draws an order of the replicas that serve it (rendezvous hashing, by weight), the same in all
workers and on all hosts. Its homes are the first of these, as many as have its share of the pool's requests
among their share of the pool's speed: of four equal replicas one, if a tenth of the requests name it, and all
four if all do. Its request goes to one of the homes that has a slot and no more than :data:`LOAD_BOUND` times
its fair share in flight (:mod:`routing.balancing.strategies.bounded_load`); if several have, the strategy of
the fleet picks one of them. If none has, it goes to the next in the order that has. If there is none either,
the strategy picks among all, as it does for requests for the model itself, which count in the bound. When a
replica leaves, only those adapters move that were at home there.

Sources: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (IEEE/ACM ToN 1998) for
rendezvous hashing; Schindelhauer and Schomaker, "Weighted distributed hash tables" (SPAA 2005) for weights;
"S-LoRA" (Sheng et al., MLSys 2024) for what servers keep and load.

Weakness: what is really loaded is not known. Where a server has room for all of its adapters nothing is
gained, and the replica that is picked is not always the least loaded.
"""

from collections.abc import Sequence
from hashlib import blake2b
from heapq import nsmallest
from math import log

from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.bounded_load import BoundedLoad

LOAD_BOUND = 1.5
MOST_HOMES = 16
"""An adapter whose load needs more is at home nowhere: the strategy spreads it."""
_OF_ONE_REQUEST = 1 / 256
"""How much one request counts in an adapter's share of the requests."""
_LEAST = 1e-12


class AdapterHomes:
    """Of one adapter."""

    __slots__ = ("_seen", "order", "share")

    def __init__(self, adapter: str, replicas: Sequence[Replica]) -> None:
        """``replicas``: all that serve it."""
        self.order = nsmallest(MOST_HOMES, replicas, key=lambda replica: _draw(adapter, replica))
        """The first is the first home."""
        self.share = 0.0
        """Which part of the pool's latest requests named it."""
        self._seen = 0

    def count(self, seen: int) -> None:
        """One more request names it. ``seen``: how many the pool has had, this one included."""
        others = seen - self._seen - 1
        if others >= 0:
            self.share = self.share * (1 - _OF_ONE_REQUEST) ** (others + 1) + _OF_ONE_REQUEST
            self._seen = seen

    def with_room(
        self, candidates: Sequence[Replica], demand: Demand, bound: BoundedLoad
    ) -> Sequence[Replica]:
        """The homes among one or more candidates that have room; if none has, the next that does; none: there
        is no such. ``bound``: of these candidates, by speed."""
        limit = bound.per_share(candidates)
        needed, found = self.share * bound.total_share, []
        for replica in self.order:
            if replica not in candidates:
                continue
            if (
                replica.load * replica.cost < limit
                and sibling_load.has_slot(replica, demand)
                and not sibling_load.is_waited_for(replica)
            ):
                found.append(replica)
            needed -= 1 / max(replica.cost, _LEAST)
            if needed <= 0.0 and found:
                return found
        return () if needed > 0.0 and len(self.order) == MOST_HOMES else found


def _draw(adapter: str, replica: Replica) -> float:
    """The lower, the earlier in the adapter's order: exponentially distributed, with the weight as rate."""
    digest = blake2b(f"{adapter}\0{replica.uid}".encode(), digest_size=8).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / ((1 << 64) + 1)
    return -log(uniform) / max(replica.spec.weight, _LEAST)
