"""Totals block: shared memory for exact counts of each fleet, which outlive the workers that write them.

Theory. As in :mod:`routing.shared.shm_counters` each worker number has cells of its own, and sums read all of
them. Unlike there, a cell is never cleared: the next process with the same number goes on counting in it, so
the sum over all numbers is that of all requests since the master began, whoever was killed meanwhile. Nobody
gives a slot back either. The same fleet, deleted and made again, goes on with its own.

::

    header     magic, workers, slots, used slots, identity             64 bytes
    keys       digest of the fleet's name                               16 bytes a slot
    cells      slot-major, then worker, then the fields of fleet_totals 384 bytes a cell

A slot is taken under a POSIX record lock: its key is written before the number of used slots grows. The block
is an anonymous memory file, of which pages that are not written cost only address space.
"""

import fcntl
import mmap
import os
import secrets
import sys
from hashlib import blake2b
from typing import Final

from routing.contract.ended_requests import EndedRequests
from routing.shared.anonymous_file import anonymous_file
from routing.shared.fleet_totals import BYTES, CELL_FIELDS, FleetTotals, ended_requests, private_totals

MAGIC: Final = 0x5359544F_00000001
SLOTS: Final = 8192
"""Fleets; those beyond are counted by each worker for itself."""
HEADER_BYTES: Final = 64
KEY_BYTES: Final = 16
_USED: Final = 3
"""Index in the header: how many slots are taken."""
_CELL_BYTES: Final = CELL_FIELDS * BYTES


class TotalsBlock:
    """One process's view of the block. ``worker``: its number; ``None`` in the master, which only reads."""

    def __init__(self, fd: int, worker: int | None) -> None:
        """Map the block behind ``fd``. Raises ValueError when it is none of this version, or the number is
        out of range."""
        self.fd = fd
        self._worker = worker
        size = os.fstat(fd).st_size
        if size < HEADER_BYTES:
            raise ValueError("the file descriptor holds no block of totals")
        self._map = mmap.mmap(fd, size)
        self._whole = memoryview(self._map)
        self._header = self._whole[:HEADER_BYTES].cast("Q")
        magic, self._workers, self._slots = self._header[0], self._header[1], self._header[2]
        if magic != MAGIC or size != _size(self._workers, self._slots):
            raise ValueError("the file descriptor holds no block of totals of this version")
        if worker is not None and not 0 <= worker < self._workers:
            raise ValueError(f"worker {worker} of a block made for workers 0 to {self._workers - 1}")
        self.identity = f"{self._header[4]:016x}"
        """No other block has it."""
        self._cells_at = HEADER_BYTES + self._slots * KEY_BYTES
        self._fleets: dict[str, FleetTotals] = {}

    @classmethod
    def create(cls, workers: int, slots: int = SLOTS) -> "TotalsBlock":
        """Make a block for so many workers and fleets; ``.fd`` is the caller's."""
        fd = anonymous_file("switchyard-totals")
        os.ftruncate(fd, _size(workers, slots))
        header = (MAGIC, workers, slots, 0, secrets.randbits(63))
        os.pwrite(fd, b"".join(n.to_bytes(8, sys.byteorder) for n in header), 0)
        return cls(fd, None)

    def fleet(self, name: str) -> FleetTotals:
        """This worker's counts of a fleet: always the same object for the same name."""
        if self._worker is None:
            raise RuntimeError("the master counts no requests")
        totals = self._fleets.get(name)
        if totals is None:
            slot = self._claim(_digest(name))
            totals = private_totals() if slot < 0 else FleetTotals(self._whole, self._at(slot, self._worker))
            self._fleets[name] = totals
        return totals

    def ended(self, name: str) -> EndedRequests | None:
        """All workers' counts of a fleet, also of those that are gone; ``None``: no worker has had it."""
        slot = self._find(_digest(name))
        if slot < 0:
            return None
        first = self._at(slot, 0)
        fields = self._whole[first : first + self._workers * _CELL_BYTES].cast("Q").tolist()
        return ended_requests([sum(fields[at::CELL_FIELDS]) for at in range(CELL_FIELDS)])

    def _at(self, slot: int, worker: int) -> int:
        return self._cells_at + (slot * self._workers + worker) * _CELL_BYTES

    def _claim(self, digest: bytes) -> int:
        """The slot of the key; −1: there is none left."""
        # The lock belongs to the process and ends with it. Only one thread of a process swaps tables.
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1)
        try:
            slot, used = self._find(digest), self._header[_USED]
            if slot < 0 and used < self._slots:
                slot, key_at = used, HEADER_BYTES + used * KEY_BYTES
                self._whole[key_at : key_at + KEY_BYTES] = digest
                self._header[_USED] = used + 1
            return slot
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)

    def _find(self, digest: bytes) -> int:
        keys = bytes(self._whole[HEADER_BYTES : HEADER_BYTES + self._header[_USED] * KEY_BYTES])
        at = keys.find(digest)
        while at >= 0 and at % KEY_BYTES:
            at = keys.find(digest, at + 1)
        return at // KEY_BYTES if at >= 0 else -1


def _size(workers: int, slots: int) -> int:
    return HEADER_BYTES + slots * (KEY_BYTES + workers * _CELL_BYTES)


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=KEY_BYTES).digest()
