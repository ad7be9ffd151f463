"""Shared-memory counters: the block in which the workers of one host see each other's load.

Theory. Python has no atomic add across processes, so there is no shared number to add to. Every worker has a
cell of its own for everything that is counted (a replica, or another key: a fleet's queue, a device's memory,
a client key). It writes only there, and sums the others' cells when it needs the host's total. How such sums
enforce a limit is in :mod:`routing.shared.limits`. A cell's fields are 8 bytes each, aligned, so that a
reader sees an old or a new value but never half of one. The owner of a key may use a field as two words of 4
bytes, which are read whole as well. Cells of one worker fill whole cache lines, so that workers do not slow
each other down (false sharing).

A directory (key → slot) says which cells a replica has. It changes only when tables swap and is guarded by a
POSIX record lock, which the kernel releases when its holder dies. A slot belongs to the workers in its holder
mask; the last to release it frees it. The generation counts how often a slot was given out, so that a worker
whose hold was cleared by mistake can notice.

The directory is a hash table with chains, so that a lookup takes as long among ten thousand keys as among
ten. A chain is changed by one write of 8 bytes, so that it is valid even if its writer dies at any moment. A
slot that is then in no chain is free as soon as its holder's bits are cleared. The start of the search for a
free slot is a hint.

A block may be made for more workers than run, so that a worker's successor can begin before the worker has
ended. Sums read the cells of running workers only: the master says which, see
:meth:`SharedCounters.set_siblings`.

::

    header    magic, workers, slots, hint                      64 bytes
    chains    number of the first slot + 1, or 0                8 bytes a slot
    directory key (16), generation, holder mask, next + 1      40 bytes a slot
    cells     slot-major, then worker, then CELL_FIELDS       256 bytes a cell

The block is an anonymous memory file: nothing is left on disk, children inherit its descriptor.
"""

import fcntl
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain

from routing.shared.anonymous_file import anonymous_file

MAGIC = 0x53594354_00000002
MAX_WORKERS = 64
HEADER_BYTES = 64
ENTRY_FIELDS = 5
KEY_BYTES = 16

HINT = 3
"""Index in the header: where the search for a free slot begins."""
GENERATION, HOLDERS, NEXT = 2, 3, 4
"""Indexes in a directory entry, after its key."""

SLOTS = 16_384
"""Room for some thousands of replicas and client keys. Unused slots cost only address space."""
CELL_FIELDS = 32

# Fields of a replica's cell. Times are CLOCK_MONOTONIC seconds, which all processes of a host share.
IN_FLIGHT = 0
WORK = 1
EJECTED_UNTIL = 2
EJECTED_AT = 3
PROBING_SINCE = 4
LEARNED_SECONDS = 5
"""Then units (6) and when both were decayed (7): :mod:`routing.balancing.learning.shared_evidence`."""
RETURNED_AT = 8
EJECTIONS_IN_A_ROW = 9
EJECTION_LASTS = 10
EXPECTED = 11
EXPECTED_WORK = 12
SUCCEEDED = 13
FAILED = 14
ANSWER_SECONDS = 15
"""Then units (16) and when both were decayed (17), as above."""
PEAK_SECONDS = 18
PEAK_AT = 19
SLOWEST = 20
SLOWEST_OF = 21
SLOWEST_AT = 22
FAILURE_RUN = 23
FAILURE_RUN_CLIENT = 24
FAILURE_RUN_AFTER = 25
EJECTED_SINCE = 26
BACK_OFF_UNTIL = 27
EJECTED_FOR = 28
"""Its cause: one of those of :mod:`routing.balancing.outlier.ejection`."""
MISSING_RESULTS = 29
DOUBTED_AT = 30
DOUBT_ENDED_AT = 31


class CapacityExhausted(Exception):
    """Every slot of the block is taken; the replica is counted by each worker for itself."""


class AlreadyHeld(Exception):
    """This worker holds cells under that key: its last requests of an earlier table have not ended yet."""


class SharedCounters:
    """One process's view of the block. ``worker`` is None in the master, which owns no cells."""

    def __init__(self, fd: int, worker: int | None) -> None:
        """Map the block behind ``fd``. Raises ValueError when it is none or the worker is out of range."""
        self.fd = fd
        self.worker = worker
        self._map = mmap.mmap(fd, os.fstat(fd).st_size)
        whole = memoryview(self._map)
        self._header = header = whole[:HEADER_BYTES].cast("Q")
        if header[0] != MAGIC:
            raise ValueError("the file descriptor does not hold a block of shared counts of this version")
        self.workers, self.slots = header[1], header[2]
        if worker is not None and not 0 <= worker < self.workers:
            raise ValueError(f"worker {worker} of a block made for workers 0 to {self.workers - 1}")
        directory_at = HEADER_BYTES + self.slots * 8
        cells_at = directory_at + self.slots * ENTRY_FIELDS * 8
        self._chains = whole[HEADER_BYTES:directory_at].cast("Q")
        self._directory = whole[directory_at:cells_at].cast("Q")
        self._view = whole[cells_at:].cast("d")
        self._words = whole[cells_at:].cast("I")
        self._held: dict[int, CounterCells] = {}
        self.siblings: tuple[int, ...] = tuple(
            sibling for sibling in range(self.workers) if sibling != worker
        )
        """The other workers: all that the block has room for, until :meth:`set_siblings`."""
        whole.release()

    @classmethod
    def create(cls, workers: int, replicas: int = SLOTS) -> "SharedCounters":
        """Make a block for so many workers and replicas (or other keys); ``.fd`` is the caller's.

        Takes ``48 + 256 · workers`` bytes a replica, and only pages that are written cost memory.
        """
        if not 1 <= workers <= MAX_WORKERS:
            raise ValueError(f"{workers} workers: between 1 and {MAX_WORKERS} can share counts")
        if replicas < 1:
            raise ValueError("a block of shared counts needs room for at least one replica")
        fd = anonymous_file("switchyard-counts")
        os.ftruncate(fd, HEADER_BYTES + replicas * (1 + ENTRY_FIELDS + CELL_FIELDS * workers) * 8)
        os.pwrite(fd, b"".join(n.to_bytes(8, sys.byteorder) for n in (MAGIC, workers, replicas)), 0)
        return cls(fd, None)

    @classmethod
    def attach(cls, fd: int, worker_index: int) -> "SharedCounters":
        """A worker's view of a block that its master made. What an earlier worker left is cleared."""
        counts = cls(fd, worker_index)
        counts.clear_worker(worker_index)
        return counts

    def claim(self, key: str) -> "CounterCells":
        """This worker's cells for a replica or another key. Every worker that claims a key has the same slot.

        Raises CapacityExhausted when no slot is free, AlreadyHeld when this worker has the key.
        """
        if self.worker is None:
            raise RuntimeError("the master has no cells")
        digest = blake2b(key.encode(), digest_size=KEY_BYTES).digest()
        first, second = int.from_bytes(digest[:8], sys.byteorder), int.from_bytes(digest[8:], sys.byteorder)
        mine = 1 << self.worker
        directory = self._directory
        with self._locked():
            slot = self._find(first, second)
            if slot >= 0:
                entry = slot * ENTRY_FIELDS
                if directory[entry + HOLDERS] & mine:
                    raise AlreadyHeld(f"this worker already holds cells for {key!r}")
                directory[entry + HOLDERS] |= mine
            else:
                slot = self._free()
                entry = slot * ENTRY_FIELDS
                self._zero(slot * self.workers, self.workers)
                directory[entry], directory[entry + 1] = first, second
                directory[entry + GENERATION] += 1
                directory[entry + HOLDERS] = mine
                head = first % self.slots
                directory[entry + NEXT] = self._chains[head]
                self._chains[head] = slot + 1
            generation = directory[entry + GENERATION]
        cells = CounterCells(
            self._view, self._words, slot, generation, self.worker, self.workers, self.siblings
        )
        self._held[slot] = cells
        return cells

    def set_siblings(self, workers: Iterable[int]) -> None:
        """These are the running workers from now on: only their cells are summed."""
        self.siblings = tuple(sibling for sibling in sorted(workers) if sibling != self.worker)
        for cells in self._held.values():
            cells.set_siblings(self.workers, self.siblings)

    def release(self, cells: "CounterCells") -> None:
        """Give cells back, set to 0. The last holder frees the slot."""
        if self._held.get(cells.slot) is not cells:
            raise RuntimeError(f"slot {cells.slot} is not held by this worker")
        del self._held[cells.slot]
        with self._locked():
            if self._directory[cells.slot * ENTRY_FIELDS + GENERATION] == cells.generation:
                self._leave(cells.slot, cells.worker)

    def drop(self, cells: "CounterCells") -> None:
        """Forget cells that are not :meth:`still_held`, so that the key can be claimed again."""
        self._held.pop(cells.slot, None)

    def still_held(self, cells: "CounterCells") -> bool:
        """Whether the directory has this worker as a holder; False after it was cleared by mistake."""
        entry = cells.slot * ENTRY_FIELDS
        directory = self._directory
        return directory[entry + GENERATION] == cells.generation and bool(
            directory[entry + HOLDERS] >> cells.worker & 1
        )

    def ensure_held(self, key: str, cells: "CounterCells | None") -> "CounterCells | None":
        """``cells`` while they are held; else newly claimed ones: the first time, and after ``cells`` were
        cleared by mistake. ``None``: none can be claimed, so each worker uses only its own counts."""
        if cells is not None:
            if self.still_held(cells):
                return cells
            self.drop(cells)
        try:
            return self.claim(key)
        except (CapacityExhausted, AlreadyHeld):
            return None

    def clear_worker(self, index: int) -> None:
        """Clear everything a dead worker has written. For the master, before it starts another."""
        if not 0 <= index < self.workers:
            raise ValueError(f"worker {index} of a block made for workers 0 to {self.workers - 1}")
        with self._locked():
            for slot, holders in enumerate(self._holders()):
                if holders >> index & 1:
                    self._leave(slot, index)

    def used(self) -> int:
        """How many slots are taken."""
        return sum(1 for holders in self._holders() if holders)

    def close(self) -> None:
        """Unmap the block; the descriptor stays the caller's. No cells of it may be used afterwards."""
        self._header.release()
        self._chains.release()
        self._directory.release()
        self._view.release()
        self._words.release()
        self._map.close()

    def _find(self, first: int, second: int) -> int:
        """Slot that holds the key of these two halves; −1: none does. Called under the lock."""
        directory = self._directory
        slot = self._chains[first % self.slots] - 1
        while slot >= 0:
            entry = slot * ENTRY_FIELDS
            if directory[entry] == first and directory[entry + 1] == second:
                return slot
            slot = directory[entry + NEXT] - 1
        return -1

    def _free(self) -> int:
        """A free slot."""
        hint = self._header[HINT]
        for slot in chain(range(hint, self.slots), range(hint)):
            if not self._directory[slot * ENTRY_FIELDS + HOLDERS]:
                self._header[HINT] = (slot + 1) % self.slots
                return slot
        raise CapacityExhausted(f"all {self.slots} slots of the shared counts are taken")

    def _leave(self, slot: int, worker: int) -> None:
        """Remove a worker from a slot's holders. A slot without holders is removed from its chain."""
        self._zero(slot * self.workers + worker, 1)
        directory = self._directory
        entry = slot * ENTRY_FIELDS
        holders = directory[entry + HOLDERS] & ~(1 << worker)
        if not holders:
            self._unchain(slot)
        directory[entry + HOLDERS] = holders

    def _unchain(self, slot: int) -> None:
        directory = self._directory
        entry = slot * ENTRY_FIELDS
        head = directory[entry] % self.slots
        other = self._chains[head] - 1
        if other == slot:
            self._chains[head] = directory[entry + NEXT]
            return
        while other >= 0:
            following = other * ENTRY_FIELDS + NEXT
            other = directory[following] - 1
            if other == slot:
                directory[following] = directory[entry + NEXT]

    def _holders(self) -> list[int]:
        """The holder mask of each slot."""
        return self._directory[HOLDERS::ENTRY_FIELDS].tolist()

    def _zero(self, first_cell: int, cells: int) -> None:
        for field in range(first_cell * CELL_FIELDS, (first_cell + cells) * CELL_FIELDS):
            self._view[field] = 0.0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # The lock belongs to the process and ends with it. Only one thread of a process swaps tables.
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1)


class CounterCells:
    """The cells of one key: this worker's own to write, its siblings' to read."""

    __slots__ = ("generation", "others", "own", "siblings", "slot", "view", "words", "worker")

    def __init__(
        self,
        view: "memoryview[float]",
        words: "memoryview[int]",
        slot: int,
        generation: int,
        worker: int,
        workers: int,
        siblings: Iterable[int],
    ) -> None:
        self.view = view
        """All cells of the block; ``view[own + FIELD]`` is for this worker alone to write."""
        self.words = words
        """The same memory as whole numbers of 4 bytes: field ``n`` is words ``2 n`` and ``2 n + 1``."""
        self.slot = slot
        self.generation = generation
        self.worker = worker
        self.own = (slot * workers + worker) * CELL_FIELDS
        self.siblings: tuple[int, ...] = ()
        """Offsets of the siblings' cells in the view."""
        self.others: tuple[tuple[int, int], ...] = ()
        """Worker number and cell offset of each sibling."""
        self.set_siblings(workers, siblings)

    def set_siblings(self, workers: int, siblings: Iterable[int]) -> None:
        """Sum the cells of these siblings from now on. ``workers``: for how many the block was made."""
        self.others = tuple((sibling, (self.slot * workers + sibling) * CELL_FIELDS) for sibling in siblings)
        self.siblings = tuple(cell for _, cell in self.others)

    def write(self, field: int, value: float) -> None:
        """Set one field of this worker's cell."""
        self.view[self.own + field] = value

    def write_counts(self, in_flight: int, work: float) -> None:
        """Set this worker's load."""
        self.view[self.own + IN_FLIGHT] = in_flight
        self.view[self.own + WORK] = work

    def siblings_sum(self, field: int) -> float:
        """Sum of one field over all other workers."""
        view = self.view
        total = 0.0
        for sibling in self.siblings:
            total += view[sibling + field]
        return total

    def siblings_max(self, field: int) -> float:
        """Largest value of one field among all other workers; 0 when there are none."""
        view = self.view
        return max((view[sibling + field] for sibling in self.siblings), default=0.0)


def private_cells() -> CounterCells:
    """Cells outside the shared block, for a worker that counts only for itself."""
    memory = memoryview(bytearray(8 * CELL_FIELDS))
    return CounterCells(memory.cast("d"), memory.cast("I"), 0, 0, 0, 1, ())
