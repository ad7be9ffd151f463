"""Notices of replicas that fail together: then their host, or a device, is likelier the cause than they are.

Pure. A place is named where two replicas or more are meant to serve, all of them have failed within SPAN_S of
each other, and some replica elsewhere is fine: where everything fails, it is no host's doing. A device is
named only where its host has others that are fine.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from controlplane.models import Event
from controlplane.telemetry.db_snapshot import FleetRow, ReplicaRow
from controlplane.telemetry.merged_numbers import FleetNumbers, Merged
from controlplane.telemetry.notices.episodes import Episodes
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed

SPAN_S = 60.0
LEAST = 2
OVER_AFTER_S = 30.0
LISTED = 5


class PlacedReplica(NamedTuple):
    """One that is meant to serve, and where it is."""

    name: str
    """``fleet/replica``."""
    places: tuple[str, ...]
    """``node1/gpu0``, and ``node1``."""
    failed_at: float | None
    """Since when it has failed, Unix seconds; ``None``: it is fine, or starts."""


class FailingTogetherNotifier(Notifier[str]):
    """Episodes by place."""

    def __init__(self) -> None:
        self.episodes = Episodes[str](OVER_AFTER_S)

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        found = failing_places(placed(observed.fleets, observed.merged))
        notices: list[Notice[str]] = []
        for place, failed in found.items():
            if place in self.episodes.open:
                self.episodes.open[place].seen_at = now
            else:
                text = words(place, failed, observed.defects)
                notices.append(Notice(place, True, Event.Kind.SYSTEM, text, state="down"))
        for place in self.episodes.open:
            if place not in found and self.episodes.over(place, now):
                text = f"{place}: no longer all replicas there have failed"
                notices.append(Notice(place, False, Event.Kind.SYSTEM, text))
        return notices

    def confirm(self, notice: Notice[str], now: float) -> None:
        if notice.begins:
            self.episodes.begin(notice.key, now)
        else:
            self.episodes.end(notice.key)


def placed(fleets: Sequence[FleetRow], merged: Merged) -> list[PlacedReplica]:
    """Replicas that are meant to serve, where one has failed. None where fewer than LEAST have failed, or
    all."""
    failed: dict[str, float] = {}
    meant = 0
    suspected: set[str] = set()
    for fleet in fleets:
        numbers = merged.fleets.get(fleet.name)
        for row in fleet.replicas:
            if not _is_meant(row):
                continue
            meant += 1
            if (failed_at := _failed_at(row, numbers)) is not None:
                failed[row.uid] = failed_at
                suspected.update(_places(row))
    if len(failed) < LEAST or len(failed) == meant:
        return []
    return [
        PlacedReplica(f"{fleet.name}/{row.name}", places, failed.get(row.uid))
        for fleet in fleets
        for row in fleet.replicas
        if _is_meant(row) and not suspected.isdisjoint(places := _places(row))
    ]


def _is_meant(row: ReplicaRow) -> bool:
    return row.admin_state == "active" and row.weight > 0


def _places(row: ReplicaRow) -> tuple[str, ...]:
    if not row.placed:
        return _host(row.url)
    devices = [place.accelerator for place in row.placed]
    hosts = {device.partition("/")[0] for device in devices if "/" in device}
    return (*devices, *sorted(hosts)) if hosts else (*devices, *_host(row.url))


@lru_cache(maxsize=32768)
def _host(url: str) -> tuple[str, ...]:
    """Its name, if it has one."""
    host = urlsplit(url).hostname
    return (host,) if host else ()


def _failed_at(row: ReplicaRow, numbers: FleetNumbers | None) -> float | None:
    if row.health in ("down", "unready"):
        return row.health_since
    seen = numbers.replicas.get(row.uid) if numbers is not None else None
    if seen is not None and seen.ejected_by and seen.ejected_by == seen.workers:
        # Its ejection has no time of its own; what matters is that it is out with the others.
        return float("inf")
    return None


def failing_places(replicas: Sequence[PlacedReplica]) -> dict[str, list[PlacedReplica]]:
    """Place → the replicas that have failed there together."""
    at: dict[str, list[PlacedReplica]] = {}
    for one in replicas:
        for place in one.places:
            at.setdefault(place, []).append(one)
    found = {place: there for place, there in at.items() if _together(there)}
    # A host whose replicas all failed explains its devices.
    return {
        place: there
        for place, there in found.items()
        if "/" not in place or place.partition("/")[0] not in found
    }


def _together(there: Sequence[PlacedReplica]) -> bool:
    if len(there) < LEAST:
        return False
    times = []
    for one in there:
        if one.failed_at is None:
            return False
        if one.failed_at != float("inf"):
            times.append(one.failed_at)
    return not times or max(times) - min(times) <= SPAN_S


def words(place: str, failed: Sequence[PlacedReplica], defects: Mapping[str, str]) -> str:
    """For people."""
    what = "accelerator" if "/" in place else "host"
    names = [one.name for one in failed]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    said = [f"{name}: {why}" for name, why in sorted(defects.items()) if name.startswith(place)]
    because = f"; its exporter says {'; '.join(said)}" if said else ""
    listed = ", ".join(names[:LISTED]) + more
    return (
        f"{what} {place}: all {len(names)} replicas there failed together ({listed}), so the {what} is "
        f"likelier the cause than they are{because}"
    )
