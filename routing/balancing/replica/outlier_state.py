"""Outlier state: what outlier detection and slow start know of one replica.

:mod:`routing.balancing.outlier` writes it; of :class:`FailureLoad`, the number by way of
:func:`routing.balancing.replica.sibling_load.count_failures`.
"""

from collections import deque

from routing.balancing.replica.client_source import FailureRun


class SuccessRateWindows:
    """Readings of a replica's counters in all workers, where the last two windows begin and lately."""

    __slots__ = (
        "all_failed",
        "all_succeeded",
        "before_return",
        "began",
        "by_client",
        "earlier_by_client",
        "earlier_failed",
        "earlier_succeeded",
        "failed",
        "succeeded",
    )

    def __init__(self) -> None:
        self.began = 0.0
        self.succeeded = self.earlier_succeeded = 0
        self.failed = self.earlier_failed = 0
        self.all_succeeded = self.all_failed = 0
        """Lately: this worker's and what its peers have shown."""
        self.before_return = 0
        """Of this worker's failures, those of requests that it was sent before it last returned. They count
        nowhere."""
        self.by_client: dict[int, int] = {}
        """Failures of the present window by client, of a few clients."""
        self.earlier_by_client: dict[int, int] = {}


class ProgressState:
    """What a replica has finished, and since when it was sent nothing."""

    __slots__ = (
        "asked",
        "asked_at",
        "doubted_until",
        "finished",
        "finished_at",
        "fleet_asked",
        "is_due",
        "succeeded_at",
    )

    def __init__(self) -> None:
        self.finished = 0
        """Its successes, when that was looked at last."""
        self.finished_at = 0.0
        """When there was one more, or nothing was waited for."""
        self.succeeded_at = 0.0
        """When there was one more."""
        self.asked = self.fleet_asked = 0
        """Requests that it and the whole fleet had been sent when it was last sent one."""
        self.asked_at = 0.0
        self.doubted_until = 0
        """It was silent: in doubt until it was sent so many requests."""
        self.is_due = False
        """Whether the next request is for it, because no strategy asks it (starvation)."""


class EjectionState:
    """What live traffic has shown against a replica."""

    __slots__ = (
        "adopted",
        "back_off_until",
        "cause",
        "claimed_at",
        "consecutive_ejections",
        "count",
        "failure_run",
        "failures",
        "lasted_s",
        "probed_at",
        "probing",
        "progress",
        "reason",
        "returned_after",
        "returned_at",
        "settled_at",
        "since",
        "soft_until",
        "stalled",
        "until",
        "was_ready",
        "windows",
    )

    def __init__(self) -> None:
        self.failures = 0
        """Failures since the last response that was none."""
        self.failure_run = FailureRun()
        """By whom those are."""
        self.until = 0.0
        """When the next probe request is due, then probation until it passes; 0: not ejected."""
        self.since = 0.0
        """When the replica was ejected that has not returned since; 0: not ejected."""
        self.back_off_until = 0.0
        """End of the back-off: a probe request that fails after that doubles it."""
        self.cause = 0
        """What it was ejected for: one of those of :mod:`routing.balancing.outlier.ejection`."""
        self.claimed_at = 0.0
        """When this ejection began; workers that eject at once are ordered by it."""
        self.adopted = False
        """Whether another worker's ejection is followed rather than an own one."""
        self.lasted_s = 0.0
        self.consecutive_ejections = 0
        self.returned_at = 0.0
        self.returned_after = 0
        """Answers that this worker had had from it by then."""
        self.probing = False
        """Whether this worker has the one probe request in flight."""
        self.probed_at = 0.0
        """When that was sent. One that was sent earlier decides nothing any more."""
        self.stalled = False
        """Ejected for silence: any byte from it lets it back."""
        self.reason = ""
        self.count = 0
        """Ejections since the worker started."""
        self.soft_until = 0.0
        """Until when it gets next to nothing (:mod:`routing.balancing.outlier.soft_ejection`); 0: it is as
        any other."""
        self.windows = SuccessRateWindows()
        self.progress = ProgressState()
        self.settled_at = 0.0
        """When what was sent before the return has been answered, so that learning begins anew; 0: it has."""
        self.was_ready = True
        """Whether its probes passed, when that was looked at last."""

    def __repr__(self) -> str:
        state = f"until {self.until:.3f}: {self.reason}" if self.until else f"{self.failures} failures"
        return f"<EjectionState {state}>"


class FailureLoad:
    """Failures that still count as requests in flight (:mod:`routing.balancing.outlier.failure_load`)."""

    __slots__ = ("ends", "requests")

    def __init__(self) -> None:
        self.requests = 0
        """How many failures count now."""
        self.ends: deque[tuple[float, int]] = deque()
        """Until when (monotonic seconds), and how many of them."""

    def __repr__(self) -> str:
        return f"<FailureLoad {self.requests} requests>"


class SlowStartState:
    """How far a replica is in its slow start, and what it has had in it."""

    __slots__ = ("over_share", "pending", "picked_before", "started")

    def __init__(self) -> None:
        self.pending = False
        """Whether one is to begin."""
        self.started: float | None = None
        """When it began; ``None``: the replica is in none."""
        self.over_share = 0.0
        """How many requests it has had beyond its part."""
        self.picked_before = 0
        """How many it had had when that was looked at last."""
