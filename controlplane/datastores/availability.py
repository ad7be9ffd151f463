"""Availability of the database and of Redis: ``ok``, or what is wrong in words."""

import threading

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError
from redis.exceptions import RedisError

from controlplane.datastores import redis
from controlplane.datastores.redis_refusal import RefusedWrite, refused_write

_seen_migrated = threading.Event()


def database_state() -> str:
    """``ok``, or what is wrong with it in words."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return "ok" if _migrated() else "migrations are missing: run .venv/bin/switchyard migrate"
    except DatabaseError as error:
        return f"unreachable: {error}"


def _migrated() -> bool:
    """Reading all migrations costs milliseconds and a yes does not become untrue: it is remembered."""
    if not _seen_migrated.is_set():
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return False
        _seen_migrated.set()
    return True


def redis_state() -> str:
    """``ok``, or why it is away or refuses writes: what follows “Redis is”."""
    try:
        refused = write_refusal()
    except RedisError as error:
        return f"away: {error}"
    return refused.words if refused else "ok"


def write_refusal() -> RefusedWrite | None:
    """See :func:`controlplane.datastores.redis_refusal.refused_write`."""
    return refused_write(redis.client())
