"""Sliding window: a rate limit per minute that holds for all workers of a host together.

Theory. The minute is a ring of seconds: the present one and the 59 before it. Each worker writes its own use
into a ring in its cell, and sums the others'. A limit is enforced as in :mod:`routing.shared.limits`: write
the claim, fence, read the others' use, and withdraw the claim if the sum is too much. So of any set of
granted claims the one written last has seen all the others, and the limit is never exceeded. A use counts for
more than 59 and no more than 60 seconds; a client that spreads its requests evenly over a minute gets all of
the limit.

A ring has a stamp: the last second for which its owner has cleared the entry. Entries of seconds after that
are a minute old and are skipped. The owner clears before it stamps and stamps before it counts. So a reader
that sees an old stamp has read before the count was written, and the writer sees that reader's claim.

Sums of whole rings are expensive, so a worker caches the siblings' sum of past seconds and adds only their
present second. That is correct because nothing is granted into a past second: after writing a claim a worker
reads the clock again, and starts over if the second has ended meanwhile. A withdrawn claim may remain in a
cached sum for a while, so before a rejection all rings are read again.

When a worker dies its ring is lost: its use of that minute is forgotten, so the host may grant that part once
more.
"""

from collections.abc import Callable
from time import monotonic

from routing.shared.limits import MAX_CLAIM_ATTEMPTS, fence
from routing.shared.shm_counters import CounterCells

SECONDS = 60
STAMP = 60
"""Index of the stamp in a cell's words, after the seconds. Words 62 and 63, a field, are the caller's."""

_MOST = 0xFFFF_FFFF


class SharedSlidingWindow:
    """A worker's ring and those of its siblings. Amounts are whole numbers; times seconds of ``clock``."""

    __slots__ = ("_cached_second", "_cached_sum", "_cells", "_clock", "_own", "_siblings", "_total", "_words")

    def __init__(self, cells: CounterCells, clock: Callable[[], float] = monotonic) -> None:
        """``cells``: newly claimed, all 0."""
        self._clock = clock
        self._cells = cells
        self._words = cells.words
        self._own = 2 * cells.own
        self._total = 0
        """Sum of this worker's ring, as of its stamp."""
        self._cached_second, self._cached_sum = -1, 0
        """Cache: a second, and what the siblings used in the minute before it."""
        self._siblings = cells.siblings
        """The siblings whose sum is cached; workers come and go."""

    def take(self, amount: int, limit: int) -> bool:
        """Count ``amount`` if all workers together then have used at most ``limit`` within the minute."""
        # If two workers collide, the one with the higher number gives up after fewer attempts: no livelock.
        attempts = max(1, MAX_CLAIM_ATTEMPTS - self._cells.worker)
        while attempts:
            second = self.claim(amount, int(self._clock()))
            fence()
            fits = self._sum(second) <= limit
            if not fits:
                self._cached_second = -1
                fits = self._sum(second) <= limit
            if fits and int(self._clock()) <= second:
                return True
            self.unclaim(amount, second)
            if not fits:
                self._cached_second = -1
                if self._sum(second) + amount > limit:
                    return False
                attempts -= 1
        return False

    def claim(self, amount: int, second: int) -> int:
        """The first half of :meth:`take`, for a caller that claims several limits at once: writes the claim,
        and returns its second. After a fence the caller checks :meth:`used_by` and, if there are siblings,
        whether that second has ended. If it is too much or too late, it calls :meth:`unclaim`, then
        :meth:`take`."""
        words, own = self._words, self._own
        if words[own + STAMP] != second:
            second = self._advance(second)
        if amount:
            words[own + second % SECONDS] += amount
            self._total += amount
        return second

    def unclaim(self, amount: int, second: int) -> None:
        """Withdraw a claim that was written into this second."""
        self._words[self._own + second % SECONDS] -= amount
        self._total -= amount

    def used_by(self, second: int) -> int:
        """Used by all workers in the minute up to this second, claims included."""
        siblings = self._cells.siblings
        if not siblings:
            return self._total
        if second != self._cached_second or siblings is not self._siblings:
            return self._sum(second)
        # As _sum, without the call.
        words = self._words
        total = self._total + self._cached_sum
        for sibling in siblings:
            ring = 2 * sibling
            if words[ring + STAMP] >= second:
                total += words[ring + second % SECONDS]
        return total

    def add(self, amount: int) -> None:
        """Count ``amount``, whatever the limit."""
        if amount > 0:
            at = self._own + self._advance(int(self._clock())) % SECONDS
            more = min(amount, _MOST - self._words[at])
            self._words[at] += more
            self._total += more

    def used(self) -> int:
        """Used by all workers within the last minute. What a sibling adds without a claim, just as a second
        ends, may be missing here for one second."""
        return self._sum(self._advance(int(self._clock())))

    def seconds_until(self, amount: int) -> tuple[float, float]:
        """Seconds until ``amount`` of what was used no longer counts (or all of it, where it is less), and
        seconds until none of it does."""
        now = self._clock()
        last = self._advance(int(now))
        rings = [self._by_second(2 * cell, last) for cell in (self._cells.own, *self._cells.siblings)]
        gone = 0
        wait_s = resets_s = 0.0
        for had_before_s, had in enumerate(map(sum, zip(*rings, strict=True)), 1):
            if had:
                resets_s = last + had_before_s - now
                if gone < amount:
                    wait_s = resets_s
                    gone += had
        return wait_s, resets_s

    def _advance(self, second: int) -> int:
        """Advance this worker's ring to this second, if it is not there yet. Returns the second it is at."""
        words, own = self._words, self._own
        stamp = words[own + STAMP]
        if second <= stamp:
            return stamp
        for passed in range(max(stamp + 1, second - SECONDS + 1), second + 1):
            at = own + passed % SECONDS
            self._total -= words[at]
            words[at] = 0
        words[own + STAMP] = second
        return second

    def _sum(self, second: int) -> int:
        """Used by all workers in the minute up to this second. Fills the cache."""
        words = self._words
        siblings = self._cells.siblings
        if second != self._cached_second or siblings is not self._siblings:
            self._cached_sum = sum(self._used_before(2 * sibling, second) for sibling in siblings)
            self._cached_second, self._siblings = second, siblings
        total = self._total + self._cached_sum
        at = second % SECONDS
        for sibling in siblings:
            ring = 2 * sibling
            if words[ring + STAMP] >= second:
                total += words[ring + at]
        return total

    def _used_before(self, ring: int, second: int) -> int:
        """Used by one worker in the minute up to this second, without this second itself."""
        stamp = self._words[ring + STAMP]
        if stamp <= second - SECONDS:
            return 0
        # Read once: its owner may be writing.
        had = self._words[ring : ring + SECONDS].tolist()
        # Its owner has not cleared these entries yet, so they are a minute old.
        for passed in range(stamp + 1, second):
            had[passed % SECONDS] = 0
        had[second % SECONDS] = 0
        return sum(had)

    def _by_second(self, ring: int, last: int) -> list[int]:
        """Used by one worker in each second of the minute up to ``last``, the oldest first."""
        unreached = last - self._words[ring + STAMP]
        had = self._words[ring : ring + SECONDS].tolist()
        oldest = (last + 1) % SECONDS
        in_order = had[oldest:] + had[:oldest]
        if unreached > 0:
            in_order[max(0, SECONDS - unreached) :] = [0] * min(SECONDS, unreached)
        return in_order
