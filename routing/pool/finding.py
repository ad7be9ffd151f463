"""Another replica for a request where the one that was picked for it has no place.

The strategy picks again among those that have one. Of a small pool these are all; of a large one a sample
(:mod:`routing.pool.vacancies`), or those near to where the request's key leads. It does so beside what it
keeps of the whole list, which would have to be made anew for the next request.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from random import Random

from routing.policies import host_view
from routing.pool.vacancies import Vacancies
from routing.replica import Replica
from routing.replica_state.device_memory import Ask
from routing.strategies.base import KeyedStrategy
from routing.strategies.sampling import LARGE_POOL, SAMPLE


class Finding(ABC):
    """The part of a pool that finds who else has a place. The pool sets all that is named here."""

    _rng: Random
    _eligible: list[Replica]
    _pick_of_found: Callable[[Sequence[Replica], float, float, Random], Replica]
    """The strategy's, for those that have a place."""
    _pick_of_sample: Callable[[Sequence[Replica], float, float, Random], Replica]
    """And where they are not all that have one."""
    _vacancies: Vacancies
    _passed_up: bool
    """Whether a place was passed up for one that is worth the wait, the last time."""
    _leases: bool
    """Whether requests reserve memory at any replica: then all are looked at."""

    @property
    @abstractmethod
    def _sees_peers(self) -> bool:
        """Whether other workers of this host serve the fleet as well."""

    def _rather(
        self, wanted: Replica, candidates: Sequence[Replica], ask: Ask, now: float, new: bool
    ) -> Replica | None:
        """Another one of a large pool, of which the strategy has seen a part, than wait for the best of
        those; ``None``: it is worth the wait. ``new``: it may not take a place that others wait for."""
        found, _ = self._vacancies.some(candidates, ask, self._rng)
        if new:
            found = [one for one in found if not host_view.is_awaited(one)]
        if not found:
            return None
        self._passed_up = True
        picked = self._pick_again([wanted, *found], False, ask.work, now)
        return None if picked is wanted else picked

    def _another(
        self,
        near: KeyedStrategy | None,
        candidates: Sequence[Replica],
        refused: Sequence[Replica],
        ask: Ask,
        now: float,
        key: tuple[int, ...],
    ) -> Replica | None:
        """The best of those that have a place, where these have refused; ``None``: nobody has."""
        if self._sees_peers:
            # Those of a large pool were read milliseconds ago, but one has just refused.
            small = candidates is self._eligible and len(candidates) <= LARGE_POOL
            host_view.read_counts(candidates if small else refused[-1:])
        if near is None:
            found, all_found = self._with_place(candidates, ask)
        else:
            found, all_found = self._near_with_place(near, candidates, ask, key), True
        for one in refused:
            while one in found:
                found.remove(one)
        if not found:
            return None
        if near is None or len(found) == 1:
            return self._pick_again(found, all_found, ask.work, now)
        return near.pick_among(found, ask.work, now, self._rng, key)

    def _near_with_place(
        self,
        near: KeyedStrategy,
        candidates: Sequence[Replica],
        ask: Ask,
        key: tuple[int, ...],
    ) -> list[Replica]:
        """Those that have a place, or of a large pool those near to where a key has led."""

        def with_place(some: Iterable[Replica]) -> list[Replica]:
            return host_view.with_place(some, ask)

        if len(candidates) <= LARGE_POOL or self._leases:
            return with_place(candidates)
        known = self._vacancies.known(candidates, ask, SAMPLE)
        if known is not None:
            return known
        found = near.neighbours(key, with_place)
        if found is None:
            return with_place(candidates)
        return found or self._vacancies.all(candidates, ask)

    def _with_place(self, candidates: Sequence[Replica], ask: Ask) -> tuple[list[Replica], bool]:
        """Those that have a place, or some of them; whether these are all."""
        if len(candidates) <= LARGE_POOL or self._leases:
            return host_view.with_place(candidates, ask), True
        return self._vacancies.some(candidates, ask, self._rng)

    def _pick_again(self, found: Sequence[Replica], all_found: bool, work: float, now: float) -> Replica:
        """Of one or more that have a place, all or a sample of them, once more for the same request."""
        if len(found) == 1:
            return found[0]
        pick = self._pick_of_found if all_found else self._pick_of_sample
        return pick(found, work, now, self._rng)
