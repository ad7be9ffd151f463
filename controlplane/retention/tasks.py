"""Each hour: events older than ``SWITCHYARD_EVENTS_DAYS`` and audit entries older than
``SWITCHYARD_AUDIT_DAYS`` go. A run that is lost or killed costs nothing: the next finds the same rows."""

import logging
from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone

from controlplane.models import AuditEntry, Event
from controlplane.services.retention import forget

logger = logging.getLogger(__name__)


@shared_task(
    name="controlplane.retention.tasks.forget_old",
    ignore_result=True,
    soft_time_limit=300,
    time_limit=330,
)
def forget_old() -> None:
    """Says in the log what it deleted; nothing when there was nothing to delete."""
    for what, model, days in (
        ("events", Event, settings.EVENTS_DAYS),
        ("audit entries", AuditEntry, settings.AUDIT_DAYS),
    ):
        try:
            deleted, finished = forget(model, timezone.now() - timedelta(days=days))
        except DatabaseError as error:
            logger.warning("old %s stay until the next run: %s", what, error)
            continue
        if deleted:
            rest = "" if finished else "; there are more, which go with the next run"
            logger.info("%s older than %d days: deleted %d%s", what, days, deleted, rest)
