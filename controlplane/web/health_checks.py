"""Health checks. ``/livez``: this process answers. ``/readyz``: its database answers and is migrated."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.datastores.availability import database_state, redis_state


@never_cache
@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """503 without the database. An absent Redis is told but no reason to stop serving: pages and
    writes go on, and the table is published when it is back."""
    checks = {"database": database_state(), "redis": redis_state()}
    ready = checks["database"] == "ok"
    return JsonResponse({"status": "ready" if ready else "not ready", **checks}, status=200 if ready else 503)
