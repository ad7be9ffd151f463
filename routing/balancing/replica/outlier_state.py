"""Outlier state: what outlier detection and slow start know of one replica.

:mod:`routing.balancing.outlier` writes it; of :class:`FailureLoad`, the number by way of
:func:`routing.balancing.replica.sibling_load.count_failures`.
"""

from collections import deque
from math import inf

from routing.balancing.replica.client_source import FailureRun
from routing.balancing.replica.untracked import Untracked, own


class SuccessRateWindows(Untracked):
    """Readings of a replica's counters in all workers, where the last two windows begin and lately."""

    began: float = 0.0
    succeeded: int = 0
    earlier_succeeded: int = 0
    failed: int = 0
    earlier_failed: int = 0
    all_succeeded: int = 0
    all_failed: int = 0
    """Lately: this worker's and what its peers have shown."""
    failed_before: int = 0
    """``all_failed`` when any replica of the fleet last succeeded."""
    before_return: int = 0
    """Of this worker's failures, those of requests that it was sent before it last returned, or before the
    whole fleet did. They count nowhere."""
    by_client: dict[int, int] = {}
    """Failures of the present window by client, of a few clients."""
    earlier_by_client: dict[int, int] = {}


class ProgressState(Untracked):
    """What a replica has finished, and since when it was sent nothing."""

    finished: int = 0
    """Its successes, when that was looked at last."""
    finished_at: float = 0.0
    """When there was one more, or nothing was waited for."""
    succeeded_at: float = 0.0
    """When there was one more."""
    asked: int = 0
    fleet_asked: int = 0
    """Requests that it and the whole fleet had been sent when it was last sent one."""
    asked_at: float = 0.0
    silent_at: float = 0.0
    """When it was last found to be silent, and has not been heard since; 0: it is not silent."""
    doubted_until: int = 0
    """It was silent: in doubt until it was sent so many requests."""
    is_due: bool = False
    """Whether the next request is for it, because no strategy asks it (starvation)."""


class ResultState(Untracked):
    """What was found in bodies of its responses, where they were looked at."""

    missing: int = 0
    """Responses of this worker that were no answer of their protocol."""
    siblings_missing: int = 0
    """The same of the host's other workers, as last read."""
    missing_at: float = -inf
    """When the last of them came, or was told by another worker."""
    is_undecided: bool = False
    """Whether it may turn out that the replica does not answer, while others do."""
    earlier_missing: int = 0
    earlier_answers: int = 0
    """Of all workers of the host, where the present window begins."""
    window: int = 0
    """Number of the window that these were read for."""
    looked_at: float = 0.0
    """When one was last looked at as a whole."""


class DoubtState(Untracked):
    """Whether its speed is too good to be true (:mod:`routing.balancing.outlier.speed_doubt`)."""

    since: float = 0.0
    """Since when it is doubted; 0: it is not."""
    ended_at: float = 0.0
    """When it last was no longer."""
    whole: int = 0
    empty: int = 0
    """Answers that were found to have content, and none, since it is doubted, or since it was last."""
    looked_at_content: int = 0
    empty_before: int = 0
    """How many these were together, and how many of them empty, when that was looked at last."""
    is_empty: bool = False
    """Whether most of them were, between the last two looks."""
    answers: int = 0
    fast: int = 0
    """How many there were, and how many of these were too fast, at the last look."""
    fast_below: int = -1
    """Bucket below which those are; -1: there was no look."""
    looked_at: float = 0.0
    is_fast: bool = False
    """Whether most of its answers were too fast, between the last two looks."""
    is_compared: bool = False
    """Whether that was found out since it is doubted."""
    credit: float = 0.0
    """Requests that it may have now, as its fair share."""
    beyond_at: float = -inf
    """When it last got one beyond that."""
    believed: dict[int, int] | None = None
    """Sketch of its response times without those that are doubted; ``None``: it is not doubted."""
    excluded: dict[int, int] = {}
    """Sketch of those that were doubted before, and not shown to be right."""

    def __repr__(self) -> str:
        return f"<DoubtState since {self.since:.3f}: {self.whole} whole, {self.empty} empty>"


class RestState(Untracked):
    """How the replica has refused requests lately (:mod:`routing.balancing.outlier.resting`)."""

    refused_at: float = 0.0
    """When it last did; 0: never."""
    succeeded: int = 0
    """How many successes it had had by then."""
    in_row: int = 0
    """How often it has since it last had one."""


class EjectionState(Untracked):
    """What live traffic has shown against a replica."""

    failures: int = 0
    """Failures since the last response that was none."""
    failure_run: FailureRun = own(FailureRun)
    """By whom those are."""
    until: float = 0.0
    """When the next probe request is due, then probation until it passes; 0: not ejected."""
    since: float = 0.0
    """When the replica was ejected that has not returned since; 0: not ejected."""
    back_off_until: float = 0.0
    """End of the back-off: a probe request that fails after that doubles it."""
    cause: int = 0
    """What it was ejected for: one of those of :mod:`routing.balancing.outlier.ejection`."""
    claimed_at: float = 0.0
    """When this ejection began; workers that eject at once are ordered by it."""
    adopted: bool = False
    """Whether another worker's ejection is followed rather than an own one."""
    lasted_s: float = 0.0
    consecutive_ejections: int = 0
    returned_at: float = 0.0
    returned_after: int = 0
    """Answers that this worker had had from it by then."""
    probing: bool = False
    """Whether this worker has the one probe request in flight."""
    probed_at: float = 0.0
    """When that was sent. One that was sent earlier decides nothing any more."""
    stalled: bool = False
    """Ejected for silence: any byte from it lets it back."""
    reason: str = ""
    count: int = 0
    """Ejections since the worker started."""
    soft_until: float = 0.0
    """Until when it gets next to nothing (:mod:`routing.balancing.outlier.soft_ejection`); 0: it is as
    any other."""
    rests_until: float = 0.0
    """It has asked to be sent nothing before that."""
    rest: RestState = own(RestState)
    windows: SuccessRateWindows = own(SuccessRateWindows)
    progress: ProgressState = own(ProgressState)
    results: ResultState = own(ResultState)
    settled_at: float = 0.0
    """When what was sent before the return has been answered, so that learning begins anew; 0: it has."""
    lost_before: float = 0.0
    """It was silent and has returned: what was sent before then, and stays silent, is taken for lost."""
    lost_check_at: float = 0.0
    """When to look for such requests; 0: there are none."""
    was_ready: bool = True
    """Whether its probes passed, when that was looked at last."""

    def __repr__(self) -> str:
        state = f"until {self.until:.3f}: {self.reason}" if self.until else f"{self.failures} failures"
        return f"<EjectionState {state}>"


class FailureLoad(Untracked):
    """Failures that still count as requests in flight (:mod:`routing.balancing.outlier.failure_load`)."""

    requests: int = 0
    """How many failures count now."""
    ends: deque[tuple[float, int]] | None = None
    """Until when (monotonic seconds), and how many of them; ``None``: there was none yet."""

    def __repr__(self) -> str:
        return f"<FailureLoad {self.requests} requests>"


class SlowStartState(Untracked):
    """How far a replica is in its slow start, and what it has had in it."""

    pending: bool = False
    """Whether one is to begin."""
    started: float | None = None
    """When it began; ``None``: the replica is in none."""
    over_share: float = 0.0
    """How many requests it has had beyond its part."""
    picked_before: int = 0
    """How many it had had when that was looked at last."""
