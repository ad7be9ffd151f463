"""Celery task of history: five-minute rows of fleets, from the minutes in Redis into the database.

What a run misses (Redis or the database is away, beat was stopped) the next one makes up for, as far as Redis
reaches back: 24 h. So it is safe to lose and to repeat.
"""

import logging
import time

import redis
from celery import shared_task
from django.db import Error as DatabaseError

from controlplane.datastores.redis import client as redis_client
from controlplane.models.fleet_history import SLOT_S
from controlplane.observability.outages import Outages
from controlplane.services import fleet_history
from controlplane.telemetry import kept_history, minute_history
from controlplane.telemetry.history_series import coarser
from controlplane.telemetry.measures import of_fleet

SETTLED_S = 5.0
"""After a slot's end its last minute is there."""

logger = logging.getLogger(__name__)
outages = Outages(logger)


@shared_task(
    name="controlplane.telemetry.tasks.keep_history",
    ignore_result=True,
    soft_time_limit=240,
    time_limit=300,
)
def keep_history() -> None:
    """Says in the log what was away, once."""
    try:
        keep_until(time.time())
        outages.back("history")
    except (redis.RedisError, DatabaseError) as error:
        outages.away("history", error)


def keep_until(now: float) -> int:
    """Store all slots that are over. ``now``: Unix seconds. Returns how many rows. Raises redis.RedisError
    and django.db.Error."""
    kept, client, newest = 0, redis_client(), fleet_history.newest()
    for pk, name in fleet_history.fleets().items():
        last = newest.get(pk, 0.0)
        if now - SETTLED_S < last + SLOT_S:
            continue
        minutes = minute_history.read(client, of_fleet(name), last + 0.5)
        rows = coarser(minutes, SLOT_S, now - SETTLED_S)
        kept += fleet_history.keep(pk, [kept_history.written(row) for row in rows])
    return kept
