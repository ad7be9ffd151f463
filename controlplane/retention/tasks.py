"""Each hour go: events older than ``SWITCHYARD_EVENTS_DAYS``, audit entries older than
``SWITCHYARD_AUDIT_DAYS``, sessions that have expired, and failed logins that no longer lock anybody out. Of
those, which strangers cause, the newest stay, however many there are.

A run that is lost or killed costs nothing: the next finds the same rows.
"""

import logging
from datetime import timedelta
from typing import NamedTuple

from axes.models import AccessAttempt
from celery import shared_task
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseError
from django.db.models import Model
from django.utils import timezone

from controlplane.models import AuditEntry, Event
from controlplane.services.retention import forget, forget_beyond

LOGINS_DAYS = 1
"""Failed logins count for minutes (``AXES_COOLOFF_TIME``); a day of them stays to be looked at."""

MOST_LOGINS = 100_000
"""Names that were tried from an address, each a row."""

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    what: str
    """In the plural, for the log."""
    model: type[Model]
    column: str
    """When the row was made, or when it ends."""
    days: int


def kept() -> list[Kept]:
    """Everything that would grow for ever."""
    return [
        Kept("events", Event, "at", settings.EVENTS_DAYS),
        Kept("audit entries", AuditEntry, "at", settings.AUDIT_DAYS),
        Kept("expired sessions", Session, "expire_date", 0),
        Kept("failed logins", AccessAttempt, "attempt_time", LOGINS_DAYS),
    ]


@shared_task(
    name="controlplane.retention.tasks.forget_old",
    ignore_result=True,
    soft_time_limit=600,
    time_limit=900,
)
def forget_old() -> None:
    """Says in the log what it deleted; nothing when there was nothing to delete."""
    for what, model, column, days in kept():
        try:
            deleted, finished = forget(model, timezone.now() - timedelta(days=days), column)
            if model is AccessAttempt:
                forget_beyond(model, MOST_LOGINS, column)
        except DatabaseError as error:
            logger.warning("old %s stay until the next run: %s", what, error)
            continue
        if deleted:
            rest = "" if finished else "; there are more, which go with the next run"
            age = f" older than {days} days" if days else ""
            logger.info("%s%s: deleted %d%s", what, age, deleted, rest)
