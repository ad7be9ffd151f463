"""Database identity: tells a database from a copy of it by where it is.

All processes that use one database get the same text; a copy of the database gets another one.
"""

import os
from pathlib import Path

from django.db import connection

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""The same in all containers of a host, another after each start of it."""


def current() -> str:
    """One query on PostgreSQL, none on SQLite. Empty where it cannot be told. Raises django.db.Error."""
    if connection.vendor == "sqlite":
        return _of_file(str(connection.settings_dict["NAME"]))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()), "
            "pg_postmaster_start_time() FROM pg_control_system()"
        )
        server, database, started = cursor.fetchone()
    return f"postgresql {server} {database} {started.isoformat()}"


def _of_file(name: str) -> str:
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return ""  # in memory
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    return f"sqlite {boot} {status.st_dev} {status.st_ino}"
