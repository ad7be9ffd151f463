"""File modes of SQLite: its files are for the user who runs Switchyard alone, for they hold password hashes.

SQLite makes them as the umask says, readable by everybody in most places. A file whose group was given access
on purpose, for a backup, keeps that: only what is open to all others is closed.
"""

import logging
from pathlib import Path
from typing import Any

from django.db.backends.signals import connection_created

logger = logging.getLogger(__name__)
OTHERS = 0o007
MINE = 0o600


def close(sender: Any, connection: Any, **kwargs: Any) -> None:
    """After a connection was made: the file is there, and so are those that SQLite keeps beside it."""
    if connection.vendor != "sqlite":
        return
    name = str(connection.settings_dict["NAME"])
    for path in (Path(name), Path(f"{name}-wal"), Path(f"{name}-shm")):
        try:
            if path.stat().st_mode & OTHERS:
                path.chmod(MINE)
        except FileNotFoundError:
            continue  # in memory, or the last other connection has just closed
        except OSError as error:
            logger.warning("%s is open to other users of this machine: %s", path, error.strerror)


def connect() -> None:
    connection_created.connect(close, dispatch_uid="controlplane.datastores.sqlite_permissions")
