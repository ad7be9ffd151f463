"""Retention: the hourly Celery task that deletes old rows.

It deletes events, resolved alerts and ended silences older than ``SWITCHYARD_EVENTS_DAYS``, rows of fleets'
history older than ``SWITCHYARD_HISTORY_DAYS``, and sent notifications after a week. It deletes audit entries,
revoked client keys, expired API tokens, and policy revisions no longer in force, when they are older than
``SWITCHYARD_AUDIT_DAYS``. It deletes expired sessions, and it ends a former salt of client keys whose overlap
is over.

If a run is lost or killed, nothing is lost: the next run deletes the same rows.
"""

import logging
from datetime import timedelta
from typing import Any, NamedTuple

from celery import shared_task
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseError
from django.db.models import F, QuerySet
from django.utils import timezone

from controlplane.models import (
    Alert,
    AlertDelivery,
    AlertSilence,
    ApiToken,
    AuditEntry,
    ClientKey,
    Event,
    FleetHistory,
    ObjectiveCount,
    PolicyRevision,
)
from controlplane.services import key_salts
from controlplane.services.retention import forget

DELIVERIES_DAYS = 7
OBJECTIVES_DAYS = 90

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    what: str
    """In the plural, for the log."""
    rows: "QuerySet[Any]"
    column: str
    """When the row was made, or when it ends; null: it stays."""
    days: int


def kept() -> list[Kept]:
    """Everything that would grow for ever."""
    not_in_force = PolicyRevision.objects.exclude(number=F("fleet__revision"))
    return [
        Kept("events", Event.objects.all(), "at", settings.EVENTS_DAYS),
        Kept("rows of history", FleetHistory.objects.all(), "at", settings.HISTORY_DAYS),
        Kept("audit entries", AuditEntry.objects.all(), "at", settings.AUDIT_DAYS),
        Kept("policy revisions", not_in_force, "created_at", settings.AUDIT_DAYS),
        Kept("revoked client keys", ClientKey.objects.all(), "revoked_at", settings.AUDIT_DAYS),
        Kept("expired API tokens", ApiToken.objects.all(), "expires_at", settings.AUDIT_DAYS),
        Kept("resolved alerts", Alert.objects.all(), "resolved_at", settings.EVENTS_DAYS),
        Kept("ended silences", AlertSilence.objects.all(), "ends_at", settings.EVENTS_DAYS),
        Kept("sent notifications", AlertDelivery.objects.all(), "done_at", DELIVERIES_DAYS),
        Kept("counts of objectives", ObjectiveCount.objects.all(), "at", OBJECTIVES_DAYS),
        Kept("expired sessions", Session.objects.all(), "expire_date", 0),
    ]


@shared_task(
    name="controlplane.retention.tasks.forget_old",
    ignore_result=True,
    soft_time_limit=600,
    time_limit=900,
)
def forget_old() -> None:
    """Says in the log what it deleted; nothing when there was nothing to delete."""
    for what, rows, column, days in kept():
        try:
            deleted, finished = forget(rows, timezone.now() - timedelta(days=days), column)
        except DatabaseError as error:
            logger.warning("old %s stay until the next run: %s", what, error)
            continue
        if deleted:
            rest = "" if finished else "; there are more, which go with the next run"
            age = f" older than {days} days" if days else ""
            logger.info("%s%s: deleted %d%s", what, age, deleted, rest)
    try:
        ended = key_salts.end_if_due("retention")
    except DatabaseError as error:
        logger.warning("the former salt of client keys stays until the next run: %s", error)
        return
    if ended:
        logger.info("the former salt of client keys has ended: revoked %d keys", ended)
