"""Time limits of PostgreSQL's sessions: no statement, lock or forgotten transaction lasts for ever.

Set on each new connection by a statement, and not as a startup parameter, which PgBouncer refuses. Options
that the database's URL sets itself (``?options=-c statement_timeout=…``) are left alone.
"""

from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_migrate

from controlplane.datastores.postgresql import hangs

LIMITS_S = {
    "statement_timeout": 30,
    "lock_timeout": 20,
    "idle_in_transaction_session_timeout": 60,
}
"""Seconds. Waiting for a lock is also how writes wait for each other: as long as SQLite's do."""

_LONG_S = dict.fromkeys(LIMITS_S, 0) | {"lock_timeout": 60}
"""Of a migration, which may rewrite a table: no limits, but for what would make all others wait."""


def limit(sender: Any, connection: Any, **kwargs: Any) -> None:
    """After a connection was made."""
    _set(connection, LIMITS_S)


def lift(connection: Any) -> None:
    """This connection is about to do what may take long: a migration, a backup, a restore."""
    _set(connection, _LONG_S)
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        hangs.lift(connection.connection)


def _set(connection: Any, limits_s: dict[str, int]) -> None:
    if connection.vendor != "postgresql" or "options" in connection.settings_dict["OPTIONS"]:
        return
    calls = ", ".join("set_config(%s, %s, false)" for _ in limits_s)
    values = [text for name, limit_s in limits_s.items() for text in (name, f"{limit_s}s")]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", values)


def _before_migrating(sender: Any, using: str, **kwargs: Any) -> None:
    lift(connections[using])


def connect() -> None:
    connection_created.connect(limit, dispatch_uid="controlplane.datastores.postgres_timeouts")
    pre_migrate.connect(_before_migrating, dispatch_uid="controlplane.datastores.postgres_timeouts")
