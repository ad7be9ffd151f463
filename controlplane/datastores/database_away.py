"""Database away: which errors mean that it cannot be asked just now, and the sentence for whoever asked."""

import sqlite3

from django.db import InterfaceError, OperationalError

from controlplane.datastores.postgresql.hangs import NoAnswer, ServerHangs

AWAY_STATES = ("08", "57P", "53300", "55P03", "57014")
"""Beginnings of PostgreSQL's codes: of the connection, of a server that stops or starts, of one that has no
connection left, and of statements and waits for a lock that took too long."""


def sentence(error: BaseException | None) -> str | None:
    """What is wrong and what to do, if that is what the error (or what it came from) means."""
    if not isinstance(error, OperationalError | InterfaceError):
        return None
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _words("is busy with another change") if _is_busy(cause) else None
    if isinstance(cause, ServerHangs):
        unknown = " A change that you made just now may yet be carried out."
        return _words("does not respond", unknown if isinstance(cause, NoAnswer) else "")
    state = getattr(cause, "sqlstate", None)
    if state is None or state.startswith(AWAY_STATES):
        return _words("cannot be reached" if state is None else "does not answer in time")
    return None


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _words(what: str, more: str = "") -> str:
    return f"The database {what}: try again in a moment.{more} Requests to models go on."
