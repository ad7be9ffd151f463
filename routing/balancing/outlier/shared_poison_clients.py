"""Poison clients, shared: the workers of a host tell each other which clients' requests fail.

Theory. Connections are spread over the workers, so each sees only a part of what one client does. Each worker
writes what it finds into a ring of its own, in its cell of the fleet. It reads the others' rings on the slow
timer, and before it counts a row of failures against a replica. Only news is written: a client failed at one
replica, it failed at a second one, it succeeded. Single requests are not shared, for there may be many. If a
ring is overwritten before it is read, knowledge is lost and nothing else.

An entry is two fields: client and replica, 32 bits each, and the time. The time is written last and cleared
first, so that what stands beside a time belongs to it.
"""

from hashlib import blake2b

from routing.balancing.outlier.poison_clients import PoisonClients
from routing.shared.limits import fence
from routing.shared.shm_counters import CounterCells, SharedCounters

ENTRIES = 15
WRITTEN = 30
"""Field: how many entries this worker has ever written."""
SUCCEEDED = 0x8000_0000
"""Bit of the replica's number: it is a success."""
_REPLICA = SUCCEEDED - 1


def number_of(uid: str) -> int:
    """The number of a replica in entries: the same in all workers."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=4).digest()) & _REPLICA or 1


class SharedPoisonClients:
    """One fleet's ring in one worker, and those of its sibling workers."""

    __slots__ = ("_cells", "_read", "_shared", "_written")

    def __init__(self, shared: SharedCounters | None) -> None:
        self._shared = shared
        self._cells: CounterCells | None = None
        self._written = 0
        self._read: dict[int, int] = {}
        """Of each peer, how many entries it had written when its ring was read last."""

    def _share(self, fleet: str) -> None:
        """Have cells in the shared counts, and have them again where the master has cleared them. Only once
        there is something to tell: most fleets never need any."""
        shared, before = self._shared, self._cells
        if shared is None or shared.workers < 2:
            return
        self._cells = cells = shared.ensure_held(f"suspects/{fleet}", before)
        if cells is not before:
            self._written = 0

    def unshare(self) -> None:
        """The fleet is gone."""
        if self._shared is not None and self._cells is not None:
            self._shared.release(self._cells)
            self._cells = None

    def tell(self, fleet: str, who: int, replica: int, now: float, succeeded: bool = False) -> None:
        """Write for the others that this client has failed, or ``succeeded``, at this replica."""
        self._share(fleet)
        cells = self._cells
        if cells is None:
            return
        at = cells.own + 2 * (self._written % ENTRIES)
        cells.view[at + 1] = 0.0
        fence()
        cells.words[2 * at] = who
        cells.words[2 * at + 1] = replica | SUCCEEDED if succeeded else replica
        fence()
        cells.view[at + 1] = now
        self._written += 1
        cells.write(WRITTEN, self._written)

    def follow(self, suspects: PoisonClients) -> None:
        """Read what the other workers have written since."""
        cells = self._cells
        if cells is None:
            return
        view, words = cells.view, cells.words
        for sibling in cells.siblings:
            written, read = int(view[sibling + WRITTEN]), self._read.get(sibling, 0)
            if written == read:
                continue
            self._read[sibling] = written
            # A worker that has taken the place of another counts from the beginning.
            for entry in range(max(read if read < written else 0, written - ENTRIES), written):
                at = sibling + 2 * (entry % ENTRIES)
                reported_at = view[at + 1]
                who, where = words[2 * at], words[2 * at + 1]
                if not reported_at or not who or view[at + 1] != reported_at:
                    continue
                if where & SUCCEEDED:
                    suspects.succeeded(who, where & _REPLICA, reported_at)
                else:
                    suspects.failed(who, where, reported_at)
