"""The client keys that have been used at this worker, and their places in the shared counts."""

import logging
from collections.abc import Collection, Mapping
from functools import partial

from routing.contract.table import KeyLimits
from routing.contract.telemetry import KeyCounters
from routing.shared.counts import AlreadyHeld, CapacityExhausted, Cells, SharedCounts, own_cells
from routing.shared.host_share import HostShare
from routing.shared.key_use import KeyCounts, KeyUse

log = logging.getLogger(__name__)


class KeyUses:
    """Over all manifests: what a key has used stays used while the key stays."""

    def __init__(self, shared: SharedCounts | None, share: HostShare) -> None:
        self._shared = shared
        self._share = share
        self._by_hash: dict[str, KeyUse] = {}
        self._counts: dict[str, KeyCounts] = {}
        """By the keys' ids; they only grow while this worker lives, so those of keys that are gone stay."""
        self._claimed: dict[int, Cells] = {}
        """Out of the block, by their slots."""
        self._is_full = False

    def of(self, digest: str, limits: KeyLimits) -> KeyUse:
        """Of the key with this hash, from its first use on."""
        use = self._by_hash.get(digest)
        if use is None:
            counts = self._counts.setdefault(limits.id, KeyCounts(limits.id))
            use = self._by_hash[digest] = KeyUse(counts, partial(self._claim, digest), self._share)
            use.hold_to(limits)
        return use

    def follow(self, hashes: Collection[str], limits: Mapping[str, KeyLimits]) -> None:
        """These keys are in force from now on, and these limits of theirs."""
        self._is_full = False
        for digest, use in [*self._by_hash.items()]:
            if digest in hashes and digest in limits and limits[digest].id == use.counts.id:
                self._give_back(use.hold_to(limits[digest]))
            else:
                del self._by_hash[digest]
                self._give_back(use.retire())

    def report(self) -> list[KeyCounters]:
        """Of all keys in force that have been used."""
        self._repair()
        return [use.counts.counters() for use in self._by_hash.values()]

    def in_flight(self) -> int:
        """Requests with keys of which counts are kept."""
        return sum(counts.in_flight for counts in self._counts.values())

    def _claim(self, digest: str, what: str) -> Cells:
        if self._shared is None or self._is_full:
            return own_cells()
        try:
            cells = self._shared.claim(f"key/{digest}{what}")
        except CapacityExhausted as problem:
            self._is_full = True
            log.warning(
                "limits of client keys that are first used from now on hold for each worker by itself: %s",
                problem,
            )
            return own_cells()
        except AlreadyHeld as problem:
            log.warning("limits of a client key hold for each worker by itself: %s", problem)
            return own_cells()
        self._claimed[cells.slot] = cells
        return cells

    def _give_back(self, left: list[Cells]) -> None:
        for cells in left:
            if self._claimed.get(cells.slot) is cells:
                del self._claimed[cells.slot]
                assert self._shared is not None
                self._shared.release(cells)

    def _repair(self) -> None:
        """Claim again what the parent has cleared although this worker lives."""
        if self._shared is None:
            return
        for use in self._by_hash.values():
            for cells in filter(None, (use.places, use.reservations)):
                claimed = self._claimed.get(cells.slot) is cells
                if claimed and not self._shared.still_held(cells):
                    del self._claimed[cells.slot]
                    self._shared.drop(cells)
                    use.cells_were_cleared(cells)
