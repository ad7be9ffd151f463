"""Forgetting what is older than the installation keeps: events, audit entries, revisions, revoked keys,
sessions."""

from datetime import datetime
from typing import Any, NamedTuple

from django.db import models, transaction

BATCH = 500
"""Rows of one transaction: a writer waits no longer than these take."""
BATCHES = 2000
"""Of one run: a million rows an hour, more than anybody can write. What is left is for the next."""


class Forgotten(NamedTuple):
    deleted: int
    finished: bool
    """False: there are more rows to delete than one run may."""


def forget(rows: "models.QuerySet[Any]", before: datetime, column: str = "at") -> Forgotten:
    """Deletes those rows whose ``column`` lies before, oldest first, so that what is kept has no holes.

    Raises django.db.Error; the batches before it stay deleted.
    """
    deleted = 0
    for _ in range(BATCHES):
        number = _forget_batch(rows, before, column)
        deleted += number
        if number < BATCH:
            return Forgotten(deleted, True)
    return Forgotten(deleted, False)


def _forget_batch(rows: "models.QuerySet[Any]", before: datetime, column: str) -> int:
    """Two statements, because neither database limits a DELETE."""
    old = rows.filter(**{f"{column}__lt": before})
    oldest = list(old.order_by(column, "pk").values_list("pk", flat=True)[:BATCH])
    with transaction.atomic():
        rows.filter(pk__in=oldest).delete()
    return len(oldest)
