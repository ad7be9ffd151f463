"""``/accelerators`` and ``/accelerators/{name}``; names hold slashes, as ``node1/gpu0``."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Q, Sum
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, live, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.fleets import WAIT_S
from controlplane.api.openapi_operations import SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.serializers.accelerators import AcceleratorChangedSerializer, AcceleratorSerializer
from controlplane.models import Accelerator, Replica
from controlplane.publishing.acknowledgements import manifest_acknowledged
from controlplane.services import accelerators
from controlplane.services.accelerators import AcceleratorChange
from controlplane.services.lookup import accelerator_named
from routing.contract.accelerators import usable_bytes


def represented(rows: Iterable[Accelerator], visible: Q | None = None) -> list[dict[str, Any]]:
    """Two queries for the replicas of all of them, and one question to Redis. ``visible``: which replicas are
    listed; what the others hold counts all the same."""
    rows = list(rows)
    placed: dict[int, list[dict[str, Any]]] = {row.pk: [] for row in rows}
    links = Replica.accelerators.through.objects.filter(accelerator__in=rows)
    held = dict(links.order_by().values_list("accelerator_id").annotate(held=Sum("replica__memory_bytes")))
    links = links.filter(visible or Q())
    columns = ("accelerator_id", "replica__fleet__name", "replica__name", "replica__memory_bytes")
    memory_of_requests = ("replica__request_bytes", "replica__request_bytes_per_work")
    for pk, fleet, name, memory, fixed, per_work in links.order_by(*columns[1:3]).values_list(
        *columns, *memory_of_requests
    ):
        placed[pk].append(
            {
                "fleet": fleet,
                "replica": name,
                "memory_bytes": memory,
                "request_bytes": fixed,
                "request_bytes_per_work": per_work,
            }
        )
    seen = live.fresh_accelerators() if rows else {}
    return [
        {
            "name": row.name,
            "memory_bytes": row.memory_bytes,
            "headroom_percent": row.headroom_percent,
            "usable_bytes": usable_bytes(row.spec),
            "held_bytes": held.get(row.pk) or 0,
            "leased_bytes": seen[row.name].leased_bytes if row.name in seen else None,
            "replicas": placed[row.pk],
            "created_at": row.created_at,
        }
        for row in rows
    ]


def _answer(change: AcceleratorChange, status: int = 200) -> Response:
    wait_s = WAIT_S if change.published and change.lines else 0.0
    data = {
        **represented([change.accelerator])[0],
        "changed": list(change.lines),
        **presenters.publication(change.published),
        "workers": manifest_acknowledged(change.version, wait_s)._asdict(),
    }
    return versioned(data, change.accelerator.edit_version, status)


class AcceleratorList(ApiView):
    limited = ("GET",)
    query_parameters = ("search", "page", "page_size")

    @lists(
        "list_accelerators",
        "Accelerators, the memory that replicas hold on them and that requests reserve",
        AcceleratorSerializer,
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        rows = Accelerator.objects.filter(filters.search(request, "name")).order_by("name")
        visible = self.access.rows("replica__fleet__name")
        return self.paged(request, rows, lambda page: represented(page, visible))

    @creates(
        "create_accelerator",
        "Create an accelerator",
        request_schemas.NEW_ACCELERATOR,
        AcceleratorChangedSerializer,
    )
    def post(self, request: Request) -> Response:
        return _answer(accelerators.create(body_of(request), request.user.get_username()), 201)


class AcceleratorDetail(ApiView):
    limited = ("GET",)

    @reads("get_accelerator", "One accelerator", AcceleratorSerializer)
    def get(self, request: Request, accelerator: str) -> Response:
        row = accelerator_named(accelerator)
        visible = self.access.rows("replica__fleet__name")
        return versioned(represented([row], visible)[0], row.edit_version)

    @changes(
        "change_accelerator",
        "Change its memory size or headroom",
        request_schemas.ACCELERATOR_CHANGES,
        AcceleratorChangedSerializer,
    )
    def patch(self, request: Request, accelerator: str) -> Response:
        who, expected = request.user.get_username(), expected_version(request)
        return _answer(accelerators.update(accelerator, body_of(request), who, if_version=expected))

    @deletes("delete_accelerator", "Delete an accelerator that no replica uses")
    def delete(self, request: Request, accelerator: str) -> Response:
        who, expected = request.user.get_username(), expected_version(request)
        accelerators.delete(accelerator, who, if_version=expected)
        return Response(status=204)
