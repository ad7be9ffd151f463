"""``/fleets/{fleet}/sources`` and ``/fleets/{fleet}/sources/{source}``.

A source may say any address, file or name that its kind reaches, and nobody looks at each. So making and
changing one needs a role for all fleets.
"""

import time
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Min, Q
from django.utils import timezone
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import filters, request_schemas
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.openapi_operations import SEARCH, carries_out, changes, creates, deletes, lists, reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.sources import (
    SourceChangedSerializer,
    SourceResyncedSerializer,
    SourceSerializer,
)
from controlplane.datastores import redis
from controlplane.discovery import bell, last_lists
from controlplane.models import DiscoverySource, ReplicaOwner, SourceState
from controlplane.services import sources
from controlplane.services.errors import Conflict
from controlplane.services.lookup import fleet_named
from routing.contract.fleet_file.sources import source_rules

RESYNC_WITHIN_S = 3.0
POLL_S = 0.05


def represented(rows: Iterable[DiscoverySource]) -> list[dict[str, Any]]:
    """One query and one question to Redis for all of them."""
    rows = list(rows)
    counted = (
        ReplicaOwner.objects.filter(source__in=rows, drained_at=None)
        .order_by()
        .values_list("source_id")
        .annotate(missing=Count("pk", filter=Q(missing_since__isnull=False)), first=Min("missing_since"))
    )
    missing = {pk: (number, first) for pk, number, first in counted}
    owned = dict(
        ReplicaOwner.objects.filter(source__in=rows).order_by().values_list("source_id").annotate(Count("pk"))
    )
    try:
        last = last_lists.read(redis.client(), [str(row.uid) for row in rows])
    except RedisError:
        last = {}
    return [
        _represented(row, owned.get(row.pk, 0), missing.get(row.pk, (0, None)), last.get(str(row.uid)))
        for row in rows
    ]


def _represented(
    row: DiscoverySource, owned: int, missing: tuple[int, Any], last: last_lists.LastList | None
) -> dict[str, Any]:
    status, (number, first) = row.status, missing
    away = status.state == SourceState.FAILING
    return {
        "name": row.name,
        "kind": row.kind,
        **source_rules.effective(row.settings),
        "state": status.state,
        "reason": status.reason,
        "since": status.since,
        "frozen_since": status.frozen_since,
        "replicas": owned,
        "frozen": owned if away else number,
        "oldest_missing_s": round((timezone.now() - first).total_seconds(), 1) if first else None,
        "last_list": None
        if last is None
        else {
            "age_s": round(last.age_s, 1),
            "took_s": last.took_s,
            "entries": last.entries,
            "left_alone": last.left_alone,
            "refused": last.refused,
        },
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


class SourceList(ApiView):
    query_parameters = ("search", "page", "page_size")

    @lists("list_sources", "Sources of a fleet's replicas", SourceSerializer, SEARCH)
    def get(self, request: Request, fleet: str) -> Response:
        rows = DiscoverySource.objects.filter(fleet=fleet_named(fleet)).select_related("status")
        rows = rows.filter(filters.search(request, "name")).order_by("name")
        return self.paged(request, rows, represented)

    @creates(
        "create_source",
        "Have a source list a fleet's replicas",
        request_schemas.NEW_SOURCE,
        SourceChangedSerializer,
    )
    def post(self, request: Request, fleet: str) -> Response:
        self.check_role(Role.ADMINISTER)
        change = sources.create(fleet, body_of(request), request.user.get_username())
        return _answer(change, 201)


class SourceDetail(ApiView):
    @reads("get_source", "One source, and how following it goes", SourceSerializer)
    def get(self, request: Request, fleet: str, source: str) -> Response:
        row = sources.source_named(fleet_named(fleet), source)
        return versioned(represented([row])[0], row.edit_version)

    @changes(
        "change_source",
        "Change the settings of a source (null: not set)",
        request_schemas.SOURCE_CHANGES,
        SourceChangedSerializer,
    )
    def patch(self, request: Request, fleet: str, source: str) -> Response:
        if body_of(request).keys() != {"paused"}:
            self.check_role(Role.ADMINISTER)
        who, version = request.user.get_username(), expected_version(request)
        return _answer(sources.update(fleet, source, body_of(request), who, if_version=version))

    @deletes("delete_source", "Follow a source no longer; its replicas stay")
    def delete(self, request: Request, fleet: str, source: str) -> Response:
        sources.delete(fleet, source, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)


class SourceResync(ApiView):
    roles = {"POST": Role.OPERATE}

    @carries_out(
        "resync_source",
        "List a source now, and try what it refused again (waits for the list, 3 s at most)",
        None,
        SourceResyncedSerializer,
    )
    def post(self, request: Request, fleet: str, source: str) -> Response:
        row = sources.source_named(fleet_named(fleet), source)
        if row.status.state == SourceState.PAUSED:
            raise Conflict(
                f"Source {source} of fleet {fleet} is paused: set paused to false, which lists it."
            )
        with redis_needed():
            listed = _listed_again(str(row.uid))
        row = sources.source_named(row.fleet, source)
        return Response({**represented([row])[0], "listed": listed})


def _listed_again(uid: str) -> bool:
    """Rings, and waits for the list. Raises redis.RedisError."""
    client, ends = redis.client(), time.monotonic() + RESYNC_WITHIN_S
    before = last_lists.read(client, [uid]).get(uid)
    if not bell.ring(client, "resync", uid):
        return False
    while time.monotonic() < ends:
        last = last_lists.read(client, [uid]).get(uid)
        if last is not None and (before is None or last.at != before.at):
            return True
        time.sleep(POLL_S)
    return False


def _answer(change: sources.SourceChange, status: int = 200) -> Response:
    data = {**represented([change.row])[0], "changed": change.lines}
    return versioned(data, change.row.edit_version, status)
