"""Following one source: its lists go through :mod:`.reconciler`, and what follows from them is carried out.

Everything here runs in the one thread that writes (:class:`controlplane.daemon_threads.SerialThread`). What
is remembered from step to step is lost with the process; that only makes the next one more careful.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import redis
from django.utils import timezone

from controlplane.discovery import changes, fleet_view, last_lists
from controlplane.discovery.changes import Follower, NotFollowing
from controlplane.discovery.fleet_view import FleetView, OwnRow
from controlplane.discovery.last_lists import LastList
from controlplane.discovery.listing import Listing, Memory, Plan
from controlplane.discovery.reconciler import TWICE, reconcile
from controlplane.discovery.status import Condition, StatusWriter
from controlplane.models import DiscoverySource, ReplicaOwner
from routing.contract.fleet_file import ReplicaEntry

REFUSED_AGAIN_S = 30.0
MOST_NAMED = 20
"""Names that Redis and pages are given of those that were left alone or refused."""


class Answer(NamedTuple):
    """What a source answered."""

    listing: Listing | None
    """``None``: it did not answer."""
    error: str = ""
    """Then: why, in words."""
    took_s: float = 0.0


class _Refusal(NamedTuple):
    entry: ReplicaEntry
    words: str
    at: float
    """Of the clock: when it was last tried."""


class Following:
    def __init__(
        self,
        source: DiscoverySource,
        client: "redis.Redis",
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = timezone.now,
    ) -> None:
        self.source = source
        self._client = client
        self._clock = clock
        self._now = now
        self._memory = Memory()
        self._view: FleetView | None = None
        self._follower: Follower | None = None
        self._status = StatusWriter(source)
        self._refused: dict[str, _Refusal] = {}
        self._quiet: tuple[Listing | None, int] | None = None
        """The last listing, and the version of the fleet's table, if nothing followed from them."""

    def own(self) -> Mapping[str, OwnRow]:
        """What the source has registered. Raises NotFollowing, database errors."""
        return self._look().own

    def retry_refused(self) -> None:
        """Those that could not be registered are tried again at the next step, not REFUSED_AGAIN_S later."""
        self._refused = {}
        self._quiet = None

    def step(self, answer: Answer) -> Plan:
        """Raises NotFollowing when it is to end, database errors and redis.RedisError."""
        if self._follower is None:
            self._follower = changes.take_over(self.source)
        view = self._look()
        if self._quiet == (answer.listing, view.table_version):
            self._store(answer, Plan(), {})
            return Plan()
        plan, refused = self._reconcile(self._follower, view, answer)
        quiet = not (refused or plan.hurry or plan.frozen or plan.taken or view.is_draining or _changes(plan))
        complete = answer.listing is not None and answer.listing.complete
        self._quiet = (answer.listing, view.table_version) if quiet and complete else None
        self._store(answer, plan, refused)
        return plan

    def _look(self) -> FleetView:
        view = self._view = fleet_view.read(self.source.fleet_id, self.source.pk, self._view)
        if view is None:
            raise NotFollowing
        return view

    def _reconcile(self, follower: Follower, view: FleetView, answer: Answer) -> tuple[Plan, dict[str, str]]:
        now = self._now()
        resting = (
            fleet_view.at_rest(self._client, self.source.fleet.name) if view.is_draining else frozenset()
        )
        self._memory, plan = reconcile(
            self._memory, answer.listing, view.own_replicas(resting, now), view.others, self._clock()
        )
        refused = self._carry_out(follower, plan, view, now)
        self._note_missing(view, plan, now)
        condition = Condition(
            error=answer.error,
            note="" if answer.listing is None else answer.listing.note,
            listed=None if answer.listing is None else len(answer.listing.entries),
            own=len(view.own) - len(plan.remove) + len(plan.add),
            frozen=bool(plan.frozen),
            left_alone=len(plan.taken),
            refused=next(iter(refused.items()), None),
        )
        self._status.write(follower, condition, now)
        return plan, refused

    def _carry_out(self, follower: Follower, plan: Plan, view: FleetView, now: datetime) -> dict[str, str]:
        """What was refused is tried again when it is listed otherwise, or REFUSED_AGAIN_S later."""
        at = self._clock()
        wanted = {entry.name: entry for entry in (*plan.add, *plan.change)}
        known = {
            name: one
            for name, one in self._refused.items()
            if one.entry == wanted.get(name) and at - one.at < REFUSED_AGAIN_S
        }
        plan = replace(
            plan,
            add=tuple(entry for entry in plan.add if entry.name not in known),
            change=tuple(entry for entry in plan.change if entry.name not in known),
        )
        refused = changes.carry_out(follower, plan, view, now) if _changes(plan) else {}
        tried = {name: _Refusal(wanted[name], words, at) for name, words in refused.items() if name in wanted}
        self._refused = known | tried
        return {name: one.words for name, one in self._refused.items()} | refused

    def _note_missing(self, view: FleetView, plan: Plan, now: datetime) -> None:
        """Since when those that are there have not been listed, once that is no mere blink."""
        missing = self._memory.missing
        back = [row.pk for name, row in view.own.items() if row.missing_since and name not in missing]
        gone = {
            name: now - timedelta(seconds=self._clock() - missing[name].since)
            for name, row in view.own.items()
            if name in missing and row.missing_since is None and missing[name].listings >= TWICE
        }
        if back:
            ReplicaOwner.objects.filter(replica_id__in=back).update(missing_since=None)
        for name, since in gone.items():
            ReplicaOwner.objects.filter(replica_id=view.own[name].pk).update(missing_since=since)
        if back or gone:
            own = {
                name: row._replace(
                    missing_since=gone.get(name, None if name not in missing else row.missing_since)
                )
                for name, row in view.own.items()
            }
            self._view = view._replace(own=own)

    def _store(self, answer: Answer, plan: Plan, refused: dict[str, str]) -> None:
        if answer.listing is not None and not answer.listing.complete:
            return
        last = LastList(
            at=time.time(),
            took_s=round(answer.took_s, 4),
            entries=None if answer.listing is None else len(answer.listing.entries),
            left_alone=sorted(plan.taken)[:MOST_NAMED],
            refused=dict(sorted(refused.items())[:MOST_NAMED]),
        )
        last_lists.store(self._client, str(self.source.uid), last)


def _changes(plan: Plan) -> bool:
    return bool(plan.add or plan.change or plan.drain or plan.resume or plan.remove)
