"""Backup: database → file, while everything runs."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.crypto import salted_hmac

from controlplane.backups import backup_file, tables
from controlplane.backups.backup_file import BackupError, BackupHeader
from controlplane.datastores import postgres_timeouts

AT_ONCE = 1000
"""Rows in memory at a time."""


def save(file: Path) -> int:
    """Writes all that is kept, as of one moment; returns the number of rows. Raises BackupError."""
    postgres_timeouts.lift(connection)
    with tables.one_moment():
        migrations = tables.applied_migrations()
        if not migrations:
            raise BackupError("The database has no tables yet: there is nothing to back up.")
        head = BackupHeader(timezone.now().isoformat(), connection.vendor, key_check(), migrations)
        return backup_file.write(file, head, _tables(migrations))


def _tables(
    migrations: list[tables.MigrationKey],
) -> Iterator[tuple[str, list[str], Iterable[tuple[Any, ...]]]]:
    for model in tables.models_at(migrations):
        names = tables.field_names(model)
        rows = model._base_manager.order_by("pk").values_list(*names)
        yield tables.label(model), names, rows.iterator(chunk_size=AT_ONCE)


def key_check(secret: str = "") -> str:
    """Equal only under the same secret key, which keys the hashes of API tokens. Those of client keys are
    keyed with a value in the database, which is in the backup. ``secret``: a former one."""
    return salted_hmac("switchyard.backup", "key check", secret or None).hexdigest()[:16]
