"""Shared learning: what the workers of a host have learned of a fleet, averaged: sizes, lengths, corrections.

Theory. Every worker shows its own values and now and then takes the mean of all workers', each weighted by
its recent number of responses. Such averaging converges: all workers get the same value, and what is true of
them together is kept. A worker without traffic follows those that have some, and a new one knows at once what
they know. So units of learned speeds mean the same in each worker, and what was learned stays when a worker
is replaced. A value of 0 is not known, and not counted.

Source: consensus by averaging (DeGroot 1974).

Failure mode: only that a worker alone on its host begins with nothing after it was killed.
"""

from math import exp, log2

from routing.balancing.learning.cost_calibration import HIGHEST, LOWEST, MOST, CostCalibration, Octave
from routing.shared.shm_counters import CounterCells, SharedCounters

EVERY_S = 1.0
TAU_S = 10.0
IDLE_SHARE = 0.001
"""What a response counts that was long ago."""
MOST_KNOWN = 50.0

# Fields of a fleet's cell.
RECENT = 0
KNOWN = 1
MEANS = 2
"""Where they begin; :data:`MOST_MEANS` of them."""
MOST_MEANS = 8
OCTAVES = 2 * (MEANS + MOST_MEANS)
"""Where the octaves begin, counted in words of 4 bytes, one each: responses, and a factor's logarithm."""
_STEPS = 2.0**18
_OFFSET = 32.0


class SharedLearning:
    """One fleet's cells, in one worker."""

    __slots__ = ("_at", "_cells", "_due", "_fleet", "_known", "_recent", "_shared", "_succeeded")

    def __init__(self, fleet: str, shared: SharedCounters) -> None:
        self._fleet = fleet
        self._shared = shared
        self._cells: CounterCells | None = None
        self._due = 0.0
        self._at = 0.0
        self._recent = 0.0
        self._known = 0.0
        self._succeeded = 0

    def is_due(self, now: float) -> bool:
        if now < self._due or not self._shared.siblings:
            return False
        # Where there are none each worker goes by what it has learned itself.
        self._cells = self._shared.ensure_held(f"learned/{self._fleet}", self._cells)
        return self._cells is not None

    def close(self) -> None:
        """The fleet is gone."""
        if self._cells is not None and self._shared.still_held(self._cells):
            self._shared.release(self._cells)
        self._cells = None

    def means(self, own: tuple[float, ...], succeeded: int, now: float) -> tuple[float, ...]:
        """Show these, and have what all workers hold together. ``succeeded``: responses to this worker."""
        cells = self._cells
        assert cells is not None
        self._due = now + EVERY_S
        self._count(succeeded, now)
        view, at = cells.view, cells.own
        view[at + RECENT], view[at + KNOWN] = self._recent, self._known
        weighed = [(self._weight(at), at), *((self._weight(sibling), sibling) for sibling in cells.siblings)]
        found = []
        for number, value in enumerate(own, MEANS):
            view[at + number] = value if self._known else 0.0
            weights = [(weight, view[cell + number]) for weight, cell in weighed]
            total = sum(weight for weight, known in weights if known)
            found.append(sum(weight * known for weight, known in weights) / total if total else value)
        # It knows now what they know.
        self._known = max(view[cell + KNOWN] for _, cell in weighed)
        return tuple(found)

    def octaves(self, calibration: CostCalibration) -> None:
        """The same of the factors by which estimates are corrected. After :meth:`means`."""
        cells = self._cells
        assert cells is not None
        words = cells.words
        for number in range(LOWEST, HIGHEST + 1):
            word = OCTAVES + number - LOWEST
            known = calibration.octaves.get(number)
            words[2 * cells.own + word] = packed(known)
            reported = [(cell, words[2 * cell + word]) for cell in cells.siblings]
            others = [(self._weight(cell), *unpacked(value)) for cell, value in reported if value]
            if not others:
                continue
            if known is None:
                known = calibration.octaves[number] = Octave(0, 0.75 * 2.0**number, 0.0)
            own = self._weight(cells.own) * known.answers
            total = own + sum(weight * answers for weight, answers, _ in others)
            if total:
                taken = own * known.taken / known.estimated
                taken += sum(weight * answers * factor for weight, answers, factor in others)
                known.taken = known.estimated * taken / total
                known.answers = max(known.answers, *(answers for _, answers, _ in others))

    def _count(self, succeeded: int, now: float) -> None:
        # Replicas that left the table have taken theirs along.
        new = max(0, succeeded - self._succeeded)
        self._succeeded = succeeded
        self._recent = self._recent * exp((self._at - now) / TAU_S) + new
        self._known = min(MOST_KNOWN, self._known + new)
        self._at = now

    def _weight(self, cell: int) -> float:
        assert self._cells is not None
        view = self._cells.view
        return view[cell + RECENT] + IDLE_SHARE * view[cell + KNOWN]


def packed(known: Octave | None) -> int:
    """In 32 bits; 0: nothing is known."""
    if known is None or not known.answers or known.taken <= 0.0:
        return 0
    steps = round((log2(known.taken / known.estimated) + _OFFSET) * _STEPS)
    return min(known.answers, MOST) << 24 | min(max(steps, 0), (1 << 24) - 1)


def unpacked(word: int) -> tuple[int, float]:
    """Answers, and actual over estimated work."""
    return word >> 24, 2.0 ** ((word & 0xFFFFFF) / _STEPS - _OFFSET)
