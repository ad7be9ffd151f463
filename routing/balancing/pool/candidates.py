"""Candidates: another replica for a request, where the picked one has no slot.

The strategy picks again among the replicas that have a slot. In a small pool these are all of them. In a
large pool they are a sample (:mod:`routing.balancing.admission.free_slots`), or replicas near the one of the
request's key. A copy of the strategy picks here, because each copy caches what it derives from its list: the
cache for the whole list would be lost for the next request.
"""

from collections.abc import Iterable, Sequence
from random import Random

from routing.balancing.admission.free_slots import FreeSlots
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import KeyedStrategy, Strategy
from routing.balancing.strategies.sampling import LARGE_POOL, SAMPLE
from routing.shared.shm_counters import SharedCounters


class CandidateSearch:
    """The candidate search of one pool. The pool sets :attr:`eligible` and :attr:`reserves_memory` whenever
    they change."""

    def __init__(
        self, free_slots: FreeSlots, shared: SharedCounters | None, strategy: Strategy, rng: Random
    ) -> None:
        self._free_slots = free_slots
        self._shared = shared
        self._rng = rng
        self.eligible: list[Replica] = []
        """The pool's list of eligible replicas; parts of it are other lists."""
        self.reserves_memory = False
        """Whether requests reserve memory at any replica: then all replicas are checked, not a sample."""
        self.follow(strategy)

    def follow(self, strategy: Strategy) -> None:
        """Pick by this strategy from now on: a copy of its own, because each list of candidates is used once
        (:class:`routing.balancing.pool.terms.Terms`)."""
        self._pick_of_found = strategy.pick
        self._pick_of_sample = getattr(strategy, "pick_of_sample", strategy.pick)

    @property
    def siblings(self) -> int:
        """How many sibling workers there are."""
        return 0 if self._shared is None else len(self._shared.siblings)

    @property
    def sees_peers(self) -> bool:
        """Whether there are sibling workers, whose load counts too."""
        return self._shared is not None and bool(self._shared.siblings)

    def alternative_to_waiting(
        self, preferred: Replica, candidates: Sequence[Replica], demand: Demand, now: float, new: bool
    ) -> tuple[Replica | None, bool]:
        """For a large pool, of which the strategy has compared only a sample. Returns another replica that
        is better than waiting for ``preferred``, or ``None`` if the wait is worth it; and whether any had a
        slot. ``new``: the request may not take a slot that queued requests wait for."""
        found, _ = self._free_slots.some(candidates, demand, self._rng)
        if new:
            found = [one for one in found if not sibling_load.is_waited_for(one)]
        if not found:
            return None, False
        picked = self.pick_again([preferred, *found], False, demand.work, now)
        return (None if picked is preferred else picked), True

    def alternative(
        self,
        near: KeyedStrategy | None,
        candidates: Sequence[Replica],
        refused: Sequence[Replica],
        demand: Demand,
        now: float,
        key: tuple[int, ...],
    ) -> Replica | None:
        """The best replica that has a slot, without those that ``refused``; ``None``: there is none."""
        if self.sees_peers:
            # In a large pool, or a part of one, only the count that has just proved wrong is read again.
            small = candidates is self.eligible and len(candidates) <= LARGE_POOL
            sibling_load.read_counts(candidates if small else refused[-1:])
        if near is None:
            found, all_found = self.with_slot(candidates, demand)
        else:
            found, all_found = self._near_with_slot(near, candidates, demand, key), True
        for one in refused:
            while one in found:
                found.remove(one)
        if not found:
            return None
        if near is None or len(found) == 1:
            return self.pick_again(found, all_found, demand.work, now)
        return near.pick_among(found, demand.work, now, self._rng, key)

    def _near_with_slot(
        self,
        near: KeyedStrategy,
        candidates: Sequence[Replica],
        demand: Demand,
        key: tuple[int, ...],
    ) -> list[Replica]:
        """Replicas that have a slot; in a large pool those near the key's replica."""

        def with_slot(some: Iterable[Replica]) -> list[Replica]:
            return sibling_load.with_slot(some, demand)

        if len(candidates) <= LARGE_POOL or self.reserves_memory:
            return with_slot(candidates)
        known = self._free_slots.known(candidates, demand, SAMPLE)
        if known is not None:
            return known
        found = near.neighbours(key, with_slot)
        if found is None:
            return with_slot(candidates)
        return found or self._free_slots.all(candidates, demand)

    def with_slot(self, candidates: Sequence[Replica], demand: Demand) -> tuple[list[Replica], bool]:
        """Replicas that have a slot, or some of them; and whether these are all."""
        if len(candidates) <= LARGE_POOL or self.reserves_memory:
            return sibling_load.with_slot(candidates, demand), True
        return self._free_slots.some(candidates, demand, self._rng)

    def pick_again(self, found: Sequence[Replica], all_found: bool, work: float, now: float) -> Replica:
        """Pick again for the same request, among replicas that have a slot: all of them or a sample."""
        if len(found) == 1:
            return found[0]
        pick = self._pick_of_found if all_found else self._pick_of_sample
        return pick(found, work, now, self._rng)
