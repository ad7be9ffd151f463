"""Client key quotas of this worker: one for each key that has been used, and their shared counters."""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import monotonic

from routing.contract.table import KeyLimits
from routing.contract.telemetry import KeyCounters
from routing.shared.key_quota import KeyCounts, KeyQuota
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import (
    AlreadyHeld,
    CapacityExhausted,
    CounterCells,
    SharedCounters,
    private_cells,
)
from routing.shared.timed_keys import TimedKeys

log = logging.getLogger(__name__)


class KeyQuotas:
    """The quotas of one worker. They outlive manifests: what a key has used counts while the key exists."""

    def __init__(
        self, shared: SharedCounters | None, share: QuotaShare, clock: Callable[[], float] = monotonic
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._timed = TimedKeys()
        self._share = share
        self._by_hash: dict[str, KeyQuota] = {}
        self._counts: dict[str, KeyCounts] = {}
        """By the keys' ids. Counters must not fall while this worker lives, so those of removed keys stay."""
        self._claimed: dict[int, CounterCells] = {}
        """Cells held in the shared block, by slot."""
        self._is_full = False

    def of(self, digest: str, limits: KeyLimits) -> KeyQuota:
        """The quota of the key with this hash, made when it is first used."""
        use = self._by_hash.get(digest)
        if use is None:
            counts = self._counts.setdefault(limits.id, KeyCounts(limits.id))
            use = self._by_hash[digest] = KeyQuota(counts, partial(self._claim, digest), self._share)
            use.set_limits(limits)
        return use

    def follow(self, hashes: Collection[str], limits: Mapping[str, KeyLimits]) -> None:
        """Apply a new manifest: the hashes of the valid keys, and their limits."""
        self._is_full = False
        for digest, use in [*self._by_hash.items()]:
            if digest in hashes and digest in limits and limits[digest].id == use.counts.id:
                self._give_back(use.set_limits(limits[digest]))
            else:
                del self._by_hash[digest]
                self._give_back(use.retire())

    def report(self) -> list[KeyCounters]:
        """Counters of all valid keys that have been used."""
        return [counts.counters() for counts in self.reviewed()]

    def reviewed(self) -> list[KeyCounts]:
        """What is counted of these keys. Looks after what the workers share, and after what is kept of each
        key; to be called once a second."""
        self._repair()
        found = [use.counts for use in self._by_hash.values()]
        self._timed.follow(found, self._clock())
        return found

    def in_flight(self) -> int:
        """Requests in flight of all keys that have counters."""
        return sum(counts.in_flight for counts in self._counts.values())

    def _claim(self, digest: str, what: str) -> CounterCells:
        if self._shared is None or self._is_full:
            return private_cells()
        try:
            cells = self._shared.claim(f"key/{digest}{what}")
        except CapacityExhausted as problem:
            self._is_full = True
            log.warning(
                "limits of client keys that are first used from now on hold for each worker by itself: %s",
                problem,
            )
            return private_cells()
        except AlreadyHeld as problem:
            log.warning("limits of a client key hold for each worker by itself: %s", problem)
            return private_cells()
        self._claimed[cells.slot] = cells
        return cells

    def _give_back(self, left: list[CounterCells]) -> None:
        for cells in left:
            if self._claimed.get(cells.slot) is cells:
                del self._claimed[cells.slot]
                assert self._shared is not None
                self._shared.release(cells)

    def _repair(self) -> None:
        """Claim cells again that the master has cleared although this worker is alive."""
        if self._shared is None:
            return
        for use in self._by_hash.values():
            for cells in filter(None, (use.concurrency_cells, use.token_cells)):
                claimed = self._claimed.get(cells.slot) is cells
                if claimed and not self._shared.still_held(cells):
                    del self._claimed[cells.slot]
                    self._shared.drop(cells)
                    use.cells_were_cleared(cells)
