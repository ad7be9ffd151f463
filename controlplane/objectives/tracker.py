"""Tracker: counts what reports add, keeps it, and says how each fleet's objectives stand."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import Error as DatabaseError

from controlplane.datastores.redis import client as redis_client
from controlplane.models import Fleet
from controlplane.objectives import counting, promises, published, store
from controlplane.objectives.burn_rate import FleetObjectives, ObjectiveStatus, ObjectiveTarget, status
from controlplane.objectives.count_series import FINE_S, CountSeries
from controlplane.objectives.counting import Counts, SeenByWorker
from controlplane.objectives.store import KeptCounts
from controlplane.objectives.unstreamed import Unstreamed
from controlplane.telemetry.merge import ReceivedReport
from routing.contract.defaults import with_defaults
from routing.contract.policy import Policy

BREAK_S = 60.0
"""Whoever has not counted for so long reads anew what others have counted meanwhile."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FleetPromises:
    id: int
    name: str
    targets: Sequence[ObjectiveTarget]


@dataclass(slots=True)
class _Followed:
    """What is known of one fleet. By objective with its limit."""

    series: dict[str, CountSeries] = field(default_factory=dict)
    open: dict[str, Counts] = field(default_factory=dict)
    """Of five minutes that are not over."""
    slot: float = 0.0
    """When these are."""
    unstreamed: Unstreamed = field(default_factory=lambda: Unstreamed(0.0))


def read_promises() -> list[FleetPromises]:
    """Fleets whose policies promise something. One query. Raises django.db.Error."""
    rows = Fleet.objects.order_by("name").values_list("id", "name", "policy")
    found = ((pk, name, policy) for pk, name, policy in rows if policy.get("slo"))
    made = [
        FleetPromises(pk, name, promises.of_policy(with_defaults(policy, Policy).slo))
        for pk, name, policy in found
    ]
    return [one for one in made if one.targets]


class ObjectiveTracker:
    """Used by one thread."""

    def __init__(self) -> None:
        self._by = uuid.uuid4().hex
        self._seen: SeenByWorker = {}
        self._fleets: dict[int, _Followed] = {}
        self._followed_at = float("-inf")
        self._kept_at = float("-inf")
        self._fine: dict[str, dict[str, Counts]] = {}
        """Fleet → what it has counted since then."""

    def follow(
        self, heard: Sequence[ReceivedReport], promised: Sequence[FleetPromises], now: float
    ) -> list[FleetObjectives]:
        """``heard``: the proxies' newest reports. ``now``: Unix seconds. Raises redis.RedisError and
        django.db.Error, before anything is counted."""
        is_first = self._take_over(now)
        for one in promised:
            if one.id not in self._fleets:
                self._fleets[one.id] = _loaded(one, now)
        found = counting.news(self._seen, heard, is_first=is_first)
        self._followed_at = now
        self._keep_coarse(promised, now)
        for one in promised:
            kinds = found.get(one.name, {})
            (_, ended), (_, streams) = kinds.get("success", (0, 0)), kinds.get("first_token", (0, 0))
            self._fleets[one.id].unstreamed.add(ended, streams, now)
            counts = _by_key(one.targets, kinds)
            _count(self._fleets[one.id], one.targets, counts, now)
            _add(self._fine.setdefault(one.name, {}), counts)
        self._keep_fine(now)
        objectives = [FleetObjectives(one.name, self._statuses(one, now)) for one in promised]
        published.publish(redis_client(), objectives, now)
        return objectives

    def _take_over(self, now: float) -> bool:
        """From whoever has counted last, if that was not this one. Whether nobody has counted before."""
        last = store.load_seen()
        is_mine = last is None or last.by == self._by
        if is_mine and now - self._followed_at <= BREAK_S:
            return False  # what is in memory is newer, also where Redis was emptied meanwhile
        self._fleets, self._fine = {}, {}
        self._seen = last.seen if last is not None else {}
        self._kept_at = float("-inf")
        return last is None

    def _keep_fine(self, now: float) -> None:
        """Each FINE_S: what was seen and what was counted, together. So whoever goes on from there counts
        nothing twice, and nothing is left out."""
        if now - self._kept_at < FINE_S:
            return
        fine = {fleet: KeptCounts(now, counts) for fleet, counts in self._fine.items() if counts}
        store.keep(self._by, self._seen, fine)
        self._fine, self._kept_at = {}, now

    def _statuses(self, one: FleetPromises, now: float) -> list[ObjectiveStatus]:
        known = self._fleets[one.id]
        return [
            status(
                target,
                known.series.get(promises.series_key(target), CountSeries()),
                now,
                untold=known.unstreamed.words(now) if target.kind == "first_token" else "",
            )
            for target in one.targets
        ]

    def _keep_coarse(self, promised: Sequence[FleetPromises], now: float) -> None:
        """Where five minutes are over."""
        rows = []
        for one in promised:
            known = self._fleets[one.id]
            if known.slot and now >= known.slot:
                rows.append((one.id, KeptCounts(known.slot, dict(known.open))))
                known.slot, known.open = 0.0, {}
        if rows:
            try:
                store.keep_coarse(rows)
            except DatabaseError as error:
                logger.warning("five minutes of objectives are kept in Redis alone: %s", error)


def _loaded(one: FleetPromises, now: float) -> _Followed:
    since = now - max(target.window_s for target in one.targets)
    followed = _Followed(unstreamed=Unstreamed(now))
    rows, until = store.load_counts(one.name, one.id, since)
    for kept in rows:
        _count(followed, one.targets, kept.counts, kept.at)
        if kept.at <= until:  # the database has it
            followed.slot, followed.open = 0.0, {}
    return followed


def _by_key(targets: Sequence[ObjectiveTarget], kinds: Mapping[str, Counts]) -> dict[str, Counts]:
    return {
        promises.series_key(target): kinds[target.kind]
        for target in targets
        if target.kind in kinds and kinds[target.kind][1]
    }


def _count(
    known: _Followed, targets: Sequence[ObjectiveTarget], counts: Mapping[str, Counts], at: float
) -> None:
    for target in targets:
        key = promises.series_key(target)
        if key in counts:
            known.series.setdefault(key, CountSeries()).add(at, *counts[key])
            if not known.slot:
                known.slot = store.coarse_slot(at)
            _add(known.open, {key: counts[key]})


def _add(to: dict[str, Counts], more: Mapping[str, Counts]) -> None:
    for key, (good, total) in more.items():
        good_before, total_before = to.get(key, (0, 0))
        to[key] = (good_before + good, total_before + total)
