"""Health checks. ``/livez``: this process answers. ``/readyz``: its database answers and is migrated."""

import threading

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from controlplane.datastores import redis

_seen_migrated = threading.Event()


@never_cache
@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """503 without the database. An absent Redis is told but no reason to stop serving: pages and
    writes go on, and the table is published when it is back."""
    checks = {"database": database(), "redis": redis_state()}
    ready = checks["database"] == "ok"
    return JsonResponse({"status": "ready" if ready else "not ready", **checks}, status=200 if ready else 503)


def database() -> str:
    """``ok``, or what is wrong with it in words."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return "ok" if _migrated() else "migrations are missing: run manage.py migrate"
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
    """``ok``, or why it is away."""
    try:
        redis.client().ping()
    except RedisError as error:
        return f"away: {error}"
    return "ok"
