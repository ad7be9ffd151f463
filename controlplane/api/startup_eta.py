"""Startup ETA: how long until a starting replica is ready, by how long starts took before."""

from collections.abc import Iterable
from typing import NamedTuple

from django.utils import timezone

from controlplane.models import Replica, ReplicaHealth
from controlplane.telemetry.state_text import expectation
from routing.contract import startup


class StartupEta(NamedTuple):
    left_s: float
    """0: it takes longer than it was expected to."""
    words: str
    """``expected in about 40 s``."""


def expected(rows: Iterable[Replica]) -> dict[int, StartupEta]:
    """By primary key, of those that start and of which it can be told. One query if any starts, else none."""
    starting = {
        row.pk: (row.fleet_id, health)
        for row in rows
        if (health := getattr(row, "health", None)) is not None and _starts(health)
    }
    if not starting:
        return {}
    fleets = {fleet_id for fleet_id, _ in starting.values()}
    known: dict[int, list[float | None]] = {fleet_id: [] for fleet_id in fleets}
    measured = ReplicaHealth.objects.filter(replica__fleet_id__in=fleets, startup_s__isnull=False)
    for fleet_id, startup_s in measured.values_list("replica__fleet_id", "startup_s"):
        known[fleet_id].append(startup_s)
    usual = {fleet_id: startup.usual_duration(starts) for fleet_id, starts in known.items()}
    now = timezone.now()
    found = {}
    for pk, (fleet_id, health) in starting.items():
        startup_s = startup.expected_duration(health.startup_s, usual[fleet_id])
        if startup_s is not None:
            for_s = (now - health.since).total_seconds()
            found[pk] = StartupEta(round(max(startup_s - for_s, 0.0), 1), expectation(startup_s, for_s))
    return found


def _starts(health: ReplicaHealth) -> bool:
    return health.state != "ready" and health.starting
