"""Slow timer: when a pool brings up to date what depends on time. Each request looks at it, nobody else does.

A small pool is refreshed at once, ten times a second, and the counts of sibling workers are read in between.
A large one does both in slices (:mod:`routing.balancing.pool.refresh_slices`), if its owner calls
:meth:`SlowTimer.refresh_some` each second. Otherwise it is refreshed at once as well, however large it is:
one that is used without a proxy may be asked so rarely that slices would never come to their end.
"""

from collections.abc import Callable
from contextlib import suppress
from math import inf

from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.retry_budget import RetryBudget
from routing.balancing.pool.candidates import CandidateSearch
from routing.balancing.pool.refresh_cycle import RefreshCycle
from routing.balancing.pool.refresh_slices import REFRESH_S, RefreshSlices, RollingCounts
from routing.balancing.replica import sibling_load

REST_S = 0.001
"""After a new table was first looked at: what follows is for another request."""


class SlowTimer:
    """Of one pool. All times are monotonic seconds."""

    def __init__(
        self,
        cycle: RefreshCycle,
        search: CandidateSearch,
        admission: AdmissionQueue,
        budget: RetryBudget,
        sort: Callable[[float], float],
        refreshed: Callable[[], None],
    ) -> None:
        """``sort(now)`` finds out who is eligible, and returns when the next ejection ends; 0: none does.
        ``refreshed()`` is called when a cycle has ended, before that."""
        self.in_slices = False
        """Whether the pool is refreshed in slices."""
        self.is_sorted = False
        """Whether it is known who is eligible."""
        self._refresh_due = 0.0
        self._sort_due = 0.0
        """When it must be found out anew who is eligible, in slices."""
        self._cycle = cycle
        self._search = search
        self._admission = admission
        self._budget = budget
        self._sort_replicas = sort
        self._refreshed = refreshed
        self._slices = RefreshSlices(cycle)
        self._counts = RollingCounts()

    def restart(self) -> None:
        """There are other replicas, or other rules: everything is due."""
        self.is_sorted = False
        self._refresh_due = 0.0
        self._slices.drop()

    def sort(self, now: float) -> None:
        """Find out who is eligible."""
        ends = self._sort_replicas(now)
        self.is_sorted, self._sort_due = True, ends or inf
        if ends:
            self._refresh_due = min(self._refresh_due, ends)

    def changed(self, now: float) -> None:
        """A replica was ejected or let back."""
        if self.in_slices:
            self._sort_due = 0.0  # at the next look: many may be at once
        else:
            self.sort(now)

    def look_up(self, now: float) -> float:
        """Do what is due. Returns when the next is."""
        if self.in_slices:
            return self._look_up_some(now)
        if now >= self._refresh_due:
            self.refresh(now)
        elif self._search.sees_peers:
            sibling_load.read_counts(self._search.eligible)
            self._look_at_peers()
        if not self._search.sees_peers:
            return self._refresh_due
        return min(self._refresh_due, now + sibling_load.counts_every_s(len(self._search.eligible)))

    @property
    def due(self) -> float:
        """When something is due."""
        if not self.in_slices:
            return self._refresh_due
        return min(self._slices.due, self._sort_due, self._counts.due)

    def refresh(self, now: float) -> None:
        """Everything at once."""
        self._refresh_due = now + REFRESH_S
        self._budget.rotate(now)
        steps = self._cycle.steps(self._search.eligible)
        next(steps)
        with suppress(StopIteration):
            while True:
                steps.send(now)
        self._slices.ended(now)
        self._refreshed()
        self.sort(now)

    def refresh_some(self, now: float) -> bool:
        """Everything at once, or of a pool in slices the next ones, unless all of it was refreshed lately.
        Returns whether there are more."""
        slices = self._slices
        if not self.in_slices:
            self.refresh(now)
        elif not self.is_sorted:
            self._look_up_some(now)
            return True
        elif slices.under_way or slices.is_late(now):
            slices.due = now
            self._look_up_some(now)
        return slices.under_way

    def _look_up_some(self, now: float) -> float:
        slices, counts, search = self._slices, self._counts, self._search
        if not self.is_sorted:
            self._cycle.weigh(search.eligible, now)
            self.sort(now)
            slices.due = now + REST_S
            return self.due
        if now >= self._sort_due:
            self.sort(now)
        if now >= slices.due:
            if not slices.under_way:
                self._budget.rotate(now)
                slices.begin(search.eligible, now)
            if slices.advance(now):
                self._refreshed()
                self.sort(now)
        if not search.siblings:
            counts.due = inf
        elif now >= counts.due or counts.due == inf:
            if counts.read_some(search.eligible, search.siblings, now):
                self._admission.free_slots.forget()
            if self._cycle.limited:
                self._admission.look_at_peers()
        return self.due

    def _look_at_peers(self) -> None:
        self._admission.free_slots.forget()
        if self._cycle.limited:
            self._admission.look_at_peers()
