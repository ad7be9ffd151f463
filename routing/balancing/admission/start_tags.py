"""Start tags: how far the clients of one priority class have been served, for all workers of a host.

Theory. A client's tag only grows, so the host's tag is the largest that any worker has written (a grow-only
counter). Workers write for hashes of clients, not for clients: each client has one place in each of
:data:`ROWS` rows, which others may share, and its tag is the least of its places. So the tag is never too
small, and it is too large only where clients that are further along share all places of a client: then that
client takes turns with these as if they were one. With one client far ahead that happens to one in
:data:`FLOWS` of the others. Nothing is ever forgotten or cleared: a tag behind the class's virtual time is
without effect.

Source: the count-min sketch (Cormode and Muthukrishnan, J. Algorithms 55, 2005 §3), with the largest value in
place of the sum; hashing clients to places as in stochastic fairness queueing (McKenney, INFOCOM 1990).
"""

from routing.shared.shm_counters import CELL_FIELDS, CounterCells, SharedCounters, private_cells

ROWS = 2
_ROW_CELLS = 4
_PLACES = _ROW_CELLS * CELL_FIELDS
FLOWS = _PLACES**ROWS
"""So many numbers tell clients apart: a client's is its hash modulo this."""


class StartTags:
    """The tags of one class of one fleet's requests. Without sibling workers they are this worker's own."""

    __slots__ = ("_cells", "_held", "_key", "_shared")

    def __init__(self, key: str, shared: SharedCounters | None) -> None:
        """``key``: under which all workers of the host find them in the shared counters."""
        self._key = key
        self._shared = shared
        self._held: list[CounterCells | None] = [None] * (ROWS * _ROW_CELLS)
        self._cells = [private_cells() for _ in self._held]
        self.share()

    def share(self) -> None:
        """Have cells in the shared counters, and have them again where the master has cleared them. Where
        there is no room for them, this worker's tags are not shared."""
        if self._shared is None:
            return
        for number, before in enumerate(self._held):
            cells = self._held[number] = self._shared.ensure_held(f"{self._key}/{number}", before)
            if cells is not None:
                self._cells[number] = cells

    def unshare(self) -> None:
        """The fleet is gone."""
        for number, cells in enumerate(self._held):
            if self._shared is not None and cells is not None:
                self._shared.release(cells)
                self._held[number] = None
                self._cells[number] = private_cells()

    def of(self, flow: int) -> float:
        """The tag of the clients with this number, below :data:`FLOWS`."""
        return min(self._place(0, flow % _PLACES), self._place(1, flow // _PLACES))

    def _place(self, row: int, place: int) -> float:
        cells = self._cells[row * _ROW_CELLS + place // CELL_FIELDS]
        view, field = cells.view, place % CELL_FIELDS
        tag = view[cells.own + field]
        for sibling in cells.siblings:
            if view[sibling + field] > tag:
                tag = view[sibling + field]
        return tag

    def advance(self, flow: int, tag: float) -> None:
        """They have been served up to ``tag``."""
        for row, place in enumerate((flow % _PLACES, flow // _PLACES)):
            cells = self._cells[row * _ROW_CELLS + place // CELL_FIELDS]
            at = cells.own + place % CELL_FIELDS
            if cells.view[at] < tag:
                cells.view[at] = tag
