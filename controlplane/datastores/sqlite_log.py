"""SQLite's write-ahead log, held open, so that rows can be read while the disk is full.

The last connection that is closed deletes the log and its index. The next one makes them anew, which needs a
few blocks of disk. One connection that is never closed keeps both where they are.
"""

import logging
import sqlite3

from django.db import connection

from controlplane.config.environment import SQLITE_TIMEOUT_S

logger = logging.getLogger(__name__)
_held: list[sqlite3.Connection] = []


def hold_open() -> None:
    """Called once by processes that stay. Nothing is done for another database."""
    if connection.vendor != "sqlite":
        return
    name = str(connection.settings_dict["NAME"])
    try:
        held = sqlite3.connect(name, timeout=SQLITE_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        held.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        logger.warning("the write-ahead log of %s is not held open: %s", name, error)
    else:
        _held.append(held)
