"""``/events``: what happened, in words."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef, Q
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.grants import Access
from controlplane.api.base import ApiView
from controlplane.api.cursor_pagination import newest_first
from controlplane.api.filtered_lists import Filter, FilteredList
from controlplane.api.openapi_operations import lists_newest
from controlplane.api.serializers.events import EventSerializer
from controlplane.models import AuditEntry, Event, Fleet
from controlplane.services.lookup import fleet_named


def _of_known_fleet(name: str) -> Q:
    """One that is there, or that was when something happened to it. Raises NotFound."""
    if not Event.objects.filter(fleet_name=name).exists():
        fleet_named(name)
    return Q(fleet_name=name)


def _of_kinds(written: str) -> Q:
    kinds = [kind.strip() for kind in written.split(",")]
    for kind in kinds:
        if kind not in Event.Kind.values:
            raise ParseError(f"kind must be one of {', '.join(Event.Kind.values)}, not {kind!r}.")
    return Q(kind__in=kinds)


EVENTS = FilteredList(
    Filter("fleet", "Only events of this fleet, even if it has been deleted.", _of_known_fleet),
    Filter("replica", "Only events of replicas with this name.", lambda name: Q(replica_name=name)),
    Filter("kind", f"Only events of these kinds, separated by commas: {', '.join(Event.Kind)}.", _of_kinds),
    Filter("actor", "Only events caused by this user, by `probes` or by `conductor`."),
    searched=("text", "fleet_name", "replica_name", "actor"),
)


class EventList(ApiView):
    limited = ("GET",)
    query_parameters = EVENTS.query_parameters

    @lists_newest("list_events", "Events, newest first", EventSerializer, *EVENTS.documented)
    def get(self, request: Request) -> Response:
        audited = AuditEntry.objects.filter(write=OuterRef("write")).exclude(write="")
        rows = Event.objects.annotate(audited=Exists(audited)).filter(EVENTS.wanted(request))
        rows = rows.filter(_seen_by(self.access))
        return newest_first(request, rows, partial(represent, audit=self.access.everywhere is not None))


def _seen_by(access: Access) -> Q:
    """Of a name that is used again, a role for some fleets sees nothing of the fleet that had it before: that
    may have been another team's."""
    if access.fleet_names() is None:
        return Q()
    since = Fleet.objects.filter(name=OuterRef("fleet_name"), created_at__lte=OuterRef("at"))
    return access.rows("fleet_name") & (Q(fleet__isnull=False) | Q(Exists(since)))


def represent(rows: Iterable[Any], *, audit: bool = True) -> list[dict[str, Any]]:
    """``audit``: whether who asks may read the audit entries of a write."""
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
            "write": row.write if row.audited and audit else None,
        }
        for row in rows
    ]
