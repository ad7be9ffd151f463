"""Brief wait (busy timeout): a write that may be left out waits for other writers for a moment only."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from controlplane.config.environment import SQLITE_TIMEOUT_S

BRIEF_MS = 100


@contextmanager
def brief_wait() -> Iterator[None]:
    """For SQLite, where one writer at a time holds the whole database. Raises django.db.Error."""
    if connection.vendor != "sqlite":
        yield  # its rows are locked one by one, and waits have limits of their own
        return
    _set_timeout(BRIEF_MS)
    try:
        yield
    finally:
        _set_timeout(SQLITE_TIMEOUT_S * 1000)


def _set_timeout(milliseconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")
