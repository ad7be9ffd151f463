"""``/exporters`` and ``/exporters/{name}``: metrics exporters of hosts, and whether they answer."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, request_schemas
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.openapi_operations import SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.serializers.exporters import ExporterChangedSerializer, ExporterSerializer
from controlplane.datastores import redis
from controlplane.exporters import store
from controlplane.models import Exporter
from controlplane.services import exporters


def represented(rows: Iterable[Exporter]) -> list[dict[str, Any]]:
    """One question to Redis for all of them."""
    try:
        said = {one.exporter: one for one in store.read(redis.client())}
    except RedisError:
        said = {}
    now = time.time()
    answers = []
    for row in rows:
        reading = said.get(row.name)
        answers.append(
            {
                "name": row.name,
                "host": row.host,
                "url": row.url,
                "age_s": round(max(now - reading.at, 0.0), 1) if reading else None,
                "problem": reading.problem if reading else None,
                "devices": [f"{row.host}/{one.device}" for one in reading.devices] if reading else [],
                "created_at": row.created_at,
            }
        )
    return answers


def _answer(row: Exporter, lines: Sequence[str], status: int = 200) -> Response:
    return versioned({**represented([row])[0], "changed": list(lines)}, row.edit_version, status)


class ExporterList(ApiView):
    query_parameters = ("search", "page", "page_size")

    @lists("list_exporters", "Metrics exporters of hosts", ExporterSerializer, SEARCH)
    def get(self, request: Request) -> Response:
        rows = Exporter.objects.filter(filters.search(request, "name", "host", "url")).order_by("name")
        return self.paged(request, rows, represented)

    @creates("create_exporter", "Add an exporter", request_schemas.NEW_EXPORTER, ExporterChangedSerializer)
    def post(self, request: Request) -> Response:
        row = exporters.create(body_of(request), request.user.get_username())
        return _answer(row, ["created"], 201)


class ExporterDetail(ApiView):
    @reads("get_exporter", "One exporter", ExporterSerializer)
    def get(self, request: Request, name: str) -> Response:
        row = exporters.exporter_named(name)
        return versioned(represented([row])[0], row.edit_version)

    @changes(
        "change_exporter", "Change an exporter", request_schemas.EXPORTER_CHANGES, ExporterChangedSerializer
    )
    def patch(self, request: Request, name: str) -> Response:
        who, expected = request.user.get_username(), expected_version(request)
        return _answer(*exporters.update(name, body_of(request), who, if_version=expected))

    @deletes("delete_exporter", "Delete an exporter")
    def delete(self, request: Request, name: str) -> Response:
        exporters.delete(name, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
