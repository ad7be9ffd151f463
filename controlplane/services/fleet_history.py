"""Rows of fleets' history: kept in short transactions, read in one query."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Max

from controlplane.models import Fleet, FleetHistory

AT_ONCE = 300
"""Rows of one transaction: a day of one fleet."""


class HistoryTexts(NamedTuple):
    """One row, as :class:`controlplane.models.FleetHistory` has it. ``at``: Unix seconds."""

    at: float
    values: str
    ended: str
    sketches: str


def newest() -> dict[int, float]:
    """Fleet's id → when its newest row ended, Unix seconds."""
    rows = FleetHistory.objects.values_list("fleet_id").annotate(Max("at"))
    return {fleet: at.timestamp() for fleet, at in rows}


def fleets() -> dict[int, str]:
    """Id → name."""
    return dict(Fleet.objects.values_list("pk", "name"))


def keep(fleet_id: int, rows: Sequence[HistoryTexts]) -> int:
    """Store a fleet's rows. Those that are there already, and those of a fleet that was deleted meanwhile,
    are left out. Returns how many were given. Raises django.db.Error."""
    made = [
        FleetHistory(
            fleet_id=fleet_id,
            at=datetime.fromtimestamp(row.at, UTC),
            values=row.values,
            ended=row.ended,
            sketches=row.sketches,
        )
        for row in rows
    ]
    for at in range(0, len(made), AT_ONCE):
        with transaction.atomic():
            if not Fleet.objects.filter(pk=fleet_id).exists():
                return at
            FleetHistory.objects.bulk_create(made[at : at + AT_ONCE], ignore_conflicts=True)
    return len(made)


def values(fleet_id: int, since: datetime) -> list[str]:
    """The values of a fleet's rows that ended after ``since``, oldest first."""
    found = FleetHistory.objects.filter(fleet_id=fleet_id, at__gt=since).order_by("at")
    return list(found.values_list("values", flat=True))


def values_and_sketches(fleet_id: int, since: datetime) -> list[tuple[str, str]]:
    """The same with the sketches."""
    found = FleetHistory.objects.filter(fleet_id=fleet_id, at__gt=since).order_by("at")
    return list(found.values_list("values", "sketches"))
