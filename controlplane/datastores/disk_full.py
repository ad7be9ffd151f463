"""Disk full (ENOSPC): which errors mean it, and the sentence that names the folder and the cure."""

import errno
import os
import sqlite3
from pathlib import Path

from django.conf import settings
from django.db import connection

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
PRIMARY = 0xFF
"""The part of an extended result code of SQLite that names the kind (sqlite.org/rescode.html)."""
POSTGRES_FULL = "53100"
NO_ROOM_BYTES = 65_536
"""With less than this SQLite cannot make the index of its log."""


def sentence(error: BaseException | None) -> str | None:
    """What is full and what to do, if that is what the error (or what it came from) means."""
    while error is not None:
        if getattr(error, "sqlstate", None) == POSTGRES_FULL:
            return _words("The disk of PostgreSQL is full", "Free space on the database's host")
        if _means_full(error):
            return _words("The disk is full", f"Free space in {folder()}")
        error = error.__cause__ or error.__context__
    return None


def folder() -> Path:
    """Where the database is, if it is SQLite; else the data folder."""
    if connection.vendor == "sqlite":
        name = Path(str(connection.settings_dict["NAME"]))
        if name.is_absolute():
            return name.parent
    return Path(settings.DATA_DIR)


def free_bytes() -> int | None:
    """What is left there for this user; ``None``: not known."""
    try:
        found = os.statvfs(folder())
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _means_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    if not isinstance(error, sqlite3.Error):
        return False
    kind = getattr(error, "sqlite_errorcode", 0) & PRIMARY
    if kind == sqlite3.SQLITE_FULL:
        return True
    # What could not be written or made may have failed for another reason.
    free = free_bytes()
    unwritable = kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    return unwritable and free is not None and free < NO_ROOM_BYTES


def _words(what: str, cure: str) -> str:
    go_on = "Requests to models go on, and so does reading."
    return f"{what}: nothing was changed. {cure}, then try again. {go_on}"
