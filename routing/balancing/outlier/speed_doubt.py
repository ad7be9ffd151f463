"""Speed doubt: a replica that is suddenly much faster than any ever was, or empty, gets its fair share only.

Theory. Whatever goes by load or by response times sends most requests to a replica that answers at once: it
never has any in flight, and looks fastest. That is right for a cache or for new hardware, and wrong for a
server that is broken in a way that looks like an answer. Speed alone tells neither, so it ejects nobody. It
only holds the replica to its part by weight, whatever the strategy
(:mod:`routing.balancing.outlier.fair_shares`).

*Too fast* is a response that took less than a third of the time under which only one in twenty of all
responses of the fleet ever stayed, in this worker. It is so at weight 1 as well: hardware may be as fast as
its weight says. That is told from the responses' order and not from their mean, so it depends on no estimate
of their work: a replica that happens to get short requests has the fleet's fast responses, and none that is
faster. A replica is in doubt when three quarters of eight or
more of its responses since the last look were too fast, and those of most of its peers were not. Where all
become faster, nothing is to be said against one.

*Empty* is an answer that is well formed and has no content, which is legal too. A replica is in doubt,
however fast it is, when more than half of five or more of its answers that were inspected are empty, and
those of most of its peers are not.

The doubt ends when

- the replica has given :data:`PROOF` answers with content, or one at least in :data:`PROOF_S` seconds, and
  hardly an empty one: then it is so fast, which is the measure from now on; or
- half of its responses are no longer too fast, or those of its peers are as well.

Whether an answer has content is known of some calls of some protocols only
(:mod:`routing.balancing.outlier.inspection`). Of all others, and of answers that are empty, nothing shows
that they are right: the doubt lasts as long as the speed.

The workers of a host doubt together, and stop together: the newest word of any of them holds.

Source: our own. The fair share is a token bucket.

Failure mode: nothing is known of the first responses of a worker, so that what is too fast from its
beginning, and is doubted by no other worker, is taken for what is usual. Where most of a fleet's requests are
short and of another kind (lists of models among completions), the fastest twentieth is theirs.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from routing.balancing.replica.outlier_state import DoubtState
from routing.balancing.replica.state import Replica
from routing.contract.sketch import Sketch, bucket_of, subtract
from routing.shared.shm_counters import DOUBT_ENDED_AT, DOUBTED_AT

TIMES = 3.0
FASTEST = 0.05
ENOUGH = 50
"""Responses of the fleet before anything is said of its speed."""
LEAST = 8
LEAST_INSPECTED = 5
LOOKS_EVERY_S = 0.2
BEGINS_AT, ENDS_BELOW = 0.75, 0.5
"""Parts of a replica's responses that are too fast."""
MEASURED_EVERY_S = 10.0
PROOF = 20
PROOF_S = 10.0
EMPTY_SHARE = 0.2

_BUCKETS_AN_E_FOLD = (bucket_of(1000.0) - bucket_of(0.001)) / math.log(1e6)
_TIMES = math.ceil(math.log(TIMES) * _BUCKETS_AN_E_FOLD)


class FastBelow(NamedTuple):
    """Buckets below which a response is too fast."""

    plain: float
    at_weight_1: float

    def lowest(self, other: "FastBelow") -> "FastBelow":
        return FastBelow(min(self.plain, other.plain), min(self.at_weight_1, other.at_weight_1))


NO_LIMITS = FastBelow(math.inf, math.inf)


class SpeedDoubts:
    """Of one pool in one worker. Times are monotonic seconds."""

    def __init__(self, changed: Callable[[Replica, str, bool], None]) -> None:
        """``changed(replica, words, is_true)`` is called when the doubt about a replica begins or ends.
        ``is_true``: whether what was learned of its speed may be."""
        self._changed = changed
        self._limits: FastBelow | None = None
        """``None``: not known yet."""
        self._sums: tuple[Sketch, Sketch] | None = None
        """As they are, and at weight 1, while responses are added up over one look at all replicas."""
        self._measured_at = 0.0
        self._proven = NO_LIMITS
        """By what was shown to be right."""

    def review(self, replicas: Sequence[Replica], fleet: Sequence[Replica], now: float, begins: bool) -> bool:
        """On the slow timer. ``replicas``: all of the pool, or the next ones of a large one. ``fleet``: all.
        ``begins``: these are its first. Returns whether the doubt about one began or ended."""
        if begins:
            self._measure(now)
        changed = False
        for replica in replicas:
            if self._sums is not None:
                self._add(self._sums, replica)
            changed |= self._follow_siblings(replica, now)
            doubt = replica.doubt
            looked = False
            if replica.succeeded - doubt.answers >= LEAST and now - doubt.looked_at >= LOOKS_EVERY_S:
                self._look_at_speed(replica, now)
                looked = True
            if _inspected(doubt) - doubt.looked_at_content >= LEAST_INSPECTED:
                _look_at_content(doubt)
                looked = True
            if looked:
                changed |= self._decide(replica, fleet, now)
            if doubt.since and _is_proven(doubt, now):
                self._prove(replica, now)
                changed = True
        return changed

    def forget(self, replica: Replica, now: float) -> None:
        """The replica is back from an ejection: what it was like before says nothing."""
        doubt = replica.doubt
        if doubt.since:
            doubt.excluded = subtract(replica.latency, doubt.believed or {})
            _stop(replica, now)
        doubt.is_fast = doubt.is_empty = False
        _begin_look(replica, -1, now)

    # --- what is too fast ------------------------------------------------------------------------

    def _measure(self, now: float) -> None:
        """Read what was added up since the last time, and begin anew when that is due."""
        if self._sums is not None and self._sums[0].count >= ENOUGH:
            fastest = FastBelow(*(_fastest(sums) for sums in self._sums))
            self._limits = fastest.lowest(self._proven)
            self._measured_at = now
        is_due = self._limits is None or now - self._measured_at >= MEASURED_EVERY_S
        self._sums = (Sketch(), Sketch()) if is_due else None

    @staticmethod
    def _add(sums: tuple[Sketch, Sketch], replica: Replica) -> None:
        shift, counts = _shift(replica), _believed(replica)
        plain, at_weight_1 = sums
        plain.add_counts(counts)
        at_weight_1.add_counts({bucket + shift: count for bucket, count in counts.items()})

    def _limit(self, replica: Replica) -> int:
        """Bucket below which a response of this replica is too fast; -1: not known."""
        limits = self._limits
        if limits is None:
            return -1
        return max(0, int(min(limits.plain, limits.at_weight_1 - _shift(replica))))

    # --- one replica -----------------------------------------------------------------------------

    def _look_at_speed(self, replica: Replica, now: float) -> None:
        doubt, limit = replica.doubt, self._limit(replica)
        answers, fast, before = doubt.answers, doubt.fast, doubt.fast_below
        _begin_look(replica, limit, now)
        if limit == before and limit >= 0:
            share = (doubt.fast - fast) / (doubt.answers - answers)
            doubt.is_fast = share >= (ENDS_BELOW if doubt.since else BEGINS_AT)
            doubt.is_compared = True

    def _decide(self, replica: Replica, fleet: Sequence[Replica], now: float) -> bool:
        """Returns whether the doubt about it began or ended."""
        doubt = replica.doubt
        if (doubt.is_fast and not _are_fast(fleet, replica)) or (
            doubt.is_empty and not _are_empty(fleet, replica)
        ):
            if doubt.since:
                return False
            self._begin(replica, now)
        elif doubt.since and doubt.is_compared and (doubt.looked_at_content or not _inspected(doubt)):
            self._end(replica, now)
        else:
            return False
        return True

    def _begin(self, replica: Replica, now: float) -> None:
        doubt = replica.doubt
        doubt.whole = doubt.empty = doubt.looked_at_content = doubt.empty_before = 0
        doubt.is_compared = False
        doubt.credit = 0.0
        # Those that have brought the doubt are no measure.
        limit = doubt.fast_below
        believed = subtract(replica.latency, doubt.excluded)
        doubt.believed = {bucket: count for bucket, count in believed.items() if bucket >= limit}
        doubt.since = now
        _show(replica)
        self._changed(replica, "is in doubt", True)

    def _end(self, replica: Replica, now: float) -> None:
        """It is no longer what it was doubted for, or not alone."""
        doubt = replica.doubt
        doubt.excluded = subtract(replica.latency, doubt.believed or {})
        _stop(replica, now)
        self._changed(replica, "is no longer in doubt", False)

    def _prove(self, replica: Replica, now: float) -> None:
        doubt = replica.doubt
        shown = Sketch(subtract(replica.latency, doubt.believed or {}))
        if shown.counts:
            fastest = _fastest(shown)
            self._proven = self._proven.lowest(FastBelow(fastest, fastest + _shift(replica)))
            if self._limits is not None:
                self._limits = self._limits.lowest(self._proven)
        doubt.excluded = {}
        _stop(replica, now, proven=True)
        self._changed(replica, f"is no longer in doubt: {doubt.whole} whole answers", True)

    # --- sibling workers -------------------------------------------------------------------------

    def _follow_siblings(self, replica: Replica, now: float) -> bool:
        """Returns whether the doubt about it began or ended."""
        cells, doubt = replica.cells, replica.doubt
        if cells is None:
            return False
        if not doubt.since:
            view = cells.view
            for sibling in cells.siblings:
                if view[sibling + DOUBTED_AT] > 0:
                    break
            else:
                return False  # nobody doubts it: the usual case
        claimed = cells.siblings_max(DOUBTED_AT)
        ended = cells.siblings_max(DOUBT_ENDED_AT)
        if not doubt.since and claimed > max(ended, doubt.ended_at):
            self._begin(replica, claimed)
            return True
        if not doubt.since or ended < doubt.since:
            return False
        view = cells.view
        if any(view[one + DOUBTED_AT] < 0 and view[one + DOUBT_ENDED_AT] == ended for one in cells.siblings):
            self._prove(replica, ended)
        else:
            self._end(replica, ended)
        return True


def words(replica: Replica) -> str:
    """That its speed is doubted, for people; empty: it is not."""
    doubt = replica.doubt
    if not doubt.since:
        return ""
    share = "so it gets no more than its fair share"
    if doubt.empty > EMPTY_SHARE * doubt.whole:
        return f"in doubt: its answers are empty, and those of other replicas are not, {share}"
    text = f"in doubt: it is much faster than this fleet ever was, {share}"
    if doubt.whole:
        return f"{text} until {PROOF} whole answers have shown that it is right ({doubt.whole} so far)"
    return f"{text} until whole answers have shown that it is right"


def _is_proven(doubt: DoubtState, now: float) -> bool:
    if not doubt.whole or doubt.empty > EMPTY_SHARE * doubt.whole:
        return False
    return doubt.whole >= PROOF or now - doubt.since >= PROOF_S


def _are_fast(fleet: Sequence[Replica], besides: Replica) -> bool:
    """Whether half of the others or more are too fast as well, or there are none."""
    others = [one for one in fleet if one is not besides and one.doubt.fast_below >= 0]
    return 2 * sum([one.doubt.is_fast for one in others]) >= len(others)


def _are_empty(fleet: Sequence[Replica], besides: Replica) -> bool:
    """The same of those that mostly give empty answers."""
    others = [one for one in fleet if one is not besides and one.doubt.looked_at_content]
    return 2 * sum([one.doubt.is_empty for one in others]) >= len(others)


def _inspected(doubt: DoubtState) -> int:
    return doubt.whole + doubt.empty


def _look_at_content(doubt: DoubtState) -> None:
    inspected = _inspected(doubt)
    doubt.is_empty = 2 * (doubt.empty - doubt.empty_before) > inspected - doubt.looked_at_content
    doubt.looked_at_content, doubt.empty_before = inspected, doubt.empty


def _begin_look(replica: Replica, limit: int, now: float) -> None:
    doubt = replica.doubt
    doubt.answers, doubt.looked_at, doubt.fast_below = replica.succeeded, now, limit
    doubt.fast = sum([count for bucket, count in replica.latency.items() if bucket < limit])


def _believed(replica: Replica) -> dict[int, int]:
    doubt = replica.doubt
    if doubt.believed is not None:
        return doubt.believed
    return subtract(replica.latency, doubt.excluded) if doubt.excluded else replica.latency


def _fastest(sums: Sketch) -> float:
    """The limit by these responses; there is at least one. Buckets at weight 1 may lie below the first."""
    left = int(FASTEST * (sums.count - 1))
    for bucket in sorted(sums.counts):
        left -= sums.counts[bucket]
        if left < 0:
            return bucket - _TIMES
    raise AssertionError("a rank below the count lies in some bucket")


def _shift(replica: Replica) -> int:
    """Buckets from the replica's weight to weight 1."""
    weight = replica.spec.weight
    return 0 if weight == 1.0 or weight <= 0 else round(math.log(weight) * _BUCKETS_AN_E_FOLD)


def _stop(replica: Replica, now: float, *, proven: bool = False) -> None:
    doubt = replica.doubt
    doubt.since, doubt.ended_at, doubt.believed = 0.0, now, None
    _show(replica, proven=proven)


def _show(replica: Replica, *, proven: bool = False) -> None:
    """To the sibling workers. That it was shown to be right is a time below 0."""
    cells, doubt = replica.cells, replica.doubt
    if cells is not None:
        cells.write(DOUBT_ENDED_AT, doubt.ended_at)
        cells.write(DOUBTED_AT, -doubt.ended_at if proven else doubt.since)
