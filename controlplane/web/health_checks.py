"""Health checks. ``/livez``: this process answers. ``/readyz``: its database answers and is migrated.

Anybody may ask. So responses have no addresses, accounts or errors of database and Redis; the log has them,
each time that they change.
"""

import logging

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.datastores.availability import database_state, redis_state

logger = logging.getLogger(__name__)
_logged: dict[str, str] = {}
"""What was found before of database and Redis."""


@never_cache
@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """503 without the database. An absent Redis is told but no reason to stop serving: pages and
    writes go on, and the table is published when it is back."""
    found = {"database": database_state(), "redis": redis_state()}
    _log_changes(found)
    checks = {name: _public(state) for name, state in found.items()}
    ready = checks["database"] == "ok"
    return JsonResponse({"status": "ready" if ready else "not ready", **checks}, status=200 if ready else 503)


def _public(state: str) -> str:
    """``unreachable: …`` and ``away: …`` without what follows, which is the error as it was raised."""
    word, colon, _ = state.partition(": ")
    return word if colon and word in ("unreachable", "away") else state


def _log_changes(found: dict[str, str]) -> None:
    for name, state in found.items():
        if _public(state) != _logged.get(name, "ok"):
            logger.warning("/readyz: %s: %s", name, state)
        _logged[name] = _public(state)
