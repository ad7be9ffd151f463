"""``/events``: what happened, in words."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, serializers
from controlplane.api.base import ApiView
from controlplane.api.cursors import newest_first
from controlplane.api.documented import SEARCH, SINCE, UNTIL, lists_newest
from controlplane.models import AuditEntry, Event
from controlplane.services.lookup import fleet_named

SEARCHED = ("text", "fleet_name", "replica_name", "actor")


class EventList(ApiView):
    query_parameters = (
        *("fleet", "replica", "kind", "actor", "since", "until", "search"),
        *("cursor", "page_size"),
    )

    @lists_newest(
        "list_events",
        "What happened, newest first",
        serializers.Event,
        OpenApiParameter("fleet", str, description="Only of this fleet; it may be gone by now."),
        OpenApiParameter("replica", str, description="Only of the replica of this name."),
        OpenApiParameter(
            "kind", str, description=f"Only of these kinds, separated by commas: {', '.join(Event.Kind)}."
        ),
        OpenApiParameter("actor", str, description="Only what this user, `probes` or `conductor` did."),
        SINCE,
        UNTIL,
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        audited = AuditEntry.objects.filter(write=OuterRef("write")).exclude(write="")
        rows = Event.objects.annotate(audited=Exists(audited)).filter(_wanted(request))
        return newest_first(request, rows, represent)


def _wanted(request: Request) -> Q:
    wanted = filters.within(request)
    if fleet := filters.text(request, "fleet"):
        wanted &= Q(fleet_name=_known_fleet(fleet))
    if replica := filters.text(request, "replica"):
        wanted &= Q(replica_name=replica)
    if kinds := filters.text(request, "kind"):
        wanted &= Q(kind__in=_kinds(kinds))
    if actor := filters.text(request, "actor"):
        wanted &= Q(actor=actor)
    return wanted & filters.words(filters.text(request, "search"), SEARCHED)


def _known_fleet(name: str) -> str:
    """One that is there, or that was when something happened to it. Raises NotFound."""
    if not Event.objects.filter(fleet_name=name).exists():
        fleet_named(name)
    return name


def _kinds(written: str) -> list[str]:
    kinds = [kind.strip() for kind in written.split(",")]
    for kind in kinds:
        if kind not in Event.Kind.values:
            raise ParseError(f"kind is one of {', '.join(Event.Kind.values)}, not {kind!r}.")
    return kinds


def represent(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": row.pk,
            "at": row.at,
            "kind": row.kind,
            "state": row.state,
            "fleet": row.fleet_name or None,
            "fleet_exists": row.fleet_id is not None,
            "replica": row.replica_name or None,
            "replica_exists": row.replica_id is not None,
            "revision": row.revision,
            "text": row.text,
            "actor": row.actor,
            "write": row.write if row.audited else None,
        }
        for row in rows
    ]
