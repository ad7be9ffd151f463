"""Sticky ids (session persistence): id → the replica that stores it, within bounds.

Model servers keep stored responses in their own memory, so a later request that names one must reach the same
replica. At most ``MAX_IDS`` ids of ``MAX_ID_CHARS`` characters are remembered, the most recently used, each
for ``STICKY_TTL_S``. A forgotten id is unknown, not wrong. Until then an id stays with the replica that was
heard of first: another one that names it, of another fleet perhaps, does not take it over.
"""

from collections import OrderedDict
from typing import NamedTuple

MAX_IDS = 65_536
MAX_ID_CHARS = 128
STICKY_TTL_S = 86_400.0


class ReplicaRef(NamedTuple):
    """A replica of a fleet."""

    fleet: str
    uid: str
    replica: str
    """Its name when it was learned, for people."""

    def is_same(self, other: "ReplicaRef") -> bool:
        """Whether both are one replica, however it was called."""
        return self.uid == other.uid and self.fleet == other.fleet


class StickyIds:
    """A bounded LRU map with expiry. Times are monotonic seconds."""

    __slots__ = ("_by_id", "_most", "_refs")

    def __init__(self, most: int = MAX_IDS) -> None:
        self._most = most
        self._by_id: OrderedDict[str, tuple[ReplicaRef, float]] = OrderedDict()
        """In the order of last use, with the time of last use."""
        self._refs: dict[ReplicaRef, ReplicaRef] = {}
        """Each replica is one object in memory, however many ids it stores."""

    def __len__(self) -> int:
        return len(self._by_id)

    def learn(self, name: str, replica_ref: ReplicaRef, now: float) -> bool:
        """Remember which replica stores an id. Returns False for an id that is empty or too long, or that
        another replica stores."""
        if not 0 < len(name) <= MAX_ID_CHARS:
            return False
        by_id = self._by_id
        learned = (self._refs.setdefault(replica_ref, replica_ref), now)
        known = by_id.setdefault(name, learned)
        if known is not learned:
            if not known[0].is_same(replica_ref) and now - known[1] <= STICKY_TTL_S:
                return False
            by_id[name] = learned
            by_id.move_to_end(name)
        while len(by_id) > self._most or now - next(iter(by_id.values()))[1] > STICKY_TTL_S:
            by_id.popitem(last=False)
        if len(self._refs) > self._most:
            self._refs.clear()
        return True

    def correct(self, name: str, replica_ref: ReplicaRef) -> None:
        """Another replica than the one that is known here was heard of first. Adds no id."""
        known = self._by_id.get(name)
        if known is not None:
            self._by_id[name] = (self._refs.setdefault(replica_ref, replica_ref), known[1])

    def settle(self, name: str, replica_ref: ReplicaRef, now: float) -> ReplicaRef | None:
        """Learn which replica stores an id, unless another one was heard of first. Returns that one, of which
        whoever has learned otherwise must hear; ``None``: there is none."""
        return None if self.learn(name, replica_ref, now) else self.find(name, now)

    def overrule(self, name: str, replica_ref: ReplicaRef, now: float) -> ReplicaRef | None:
        """The same for a replica that was heard of first elsewhere: it takes an id over, and is returned."""
        if self.learn(name, replica_ref, now):
            return None
        self.correct(name, replica_ref)
        return self.find(name, now)

    def all(self) -> list[tuple[str, ReplicaRef]]:
        """All ids with their replicas, in the order of last use."""
        return [(name, replica_ref) for name, (replica_ref, _) in self._by_id.items()]

    def find(self, name: str, now: float) -> ReplicaRef | None:
        """The replica that stores this id; ``None``: unknown."""
        found = self._by_id.get(name)
        if found is None:
            return None
        replica_ref, used = found
        if now - used > STICKY_TTL_S:
            del self._by_id[name]
            return None
        self._by_id[name] = (replica_ref, now)
        self._by_id.move_to_end(name)
        return replica_ref
