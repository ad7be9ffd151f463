"""``/audit``: who changed what, before and after, and from where."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, serializers
from controlplane.api.base import ApiView
from controlplane.api.cursors import newest_first
from controlplane.api.documented import SEARCH, SINCE, UNTIL, lists_newest
from controlplane.models import AuditEntry

SEARCHED = ("actor", "verb", "target", "origin")


class AuditList(ApiView):
    query_parameters = (
        *("actor", "verb", "target", "origin", "write", "since", "until", "search"),
        *("cursor", "page_size"),
    )

    @lists_newest(
        "list_audit",
        "Who changed what, and from where, newest first",
        serializers.AuditEntry,
        OpenApiParameter("actor", str, description="Only what this user did."),
        OpenApiParameter("verb", str, description="Only this verb, as in `replicas.update`."),
        OpenApiParameter(
            "target", str, description="Only this thing and what is in it: `llm` is also `llm/a`."
        ),
        OpenApiParameter("origin", str, description="`session`, `server`, or `token sy_…`."),
        OpenApiParameter("write", str, description="Only of this transaction: an event's `write`."),
        SINCE,
        UNTIL,
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        return newest_first(request, AuditEntry.objects.filter(_wanted(request)), represent)


def _wanted(request: Request) -> Q:
    wanted = filters.within(request)
    for name in ("actor", "verb", "origin", "write"):
        if value := filters.text(request, name):
            wanted &= Q(**{name: value})
    if target := filters.text(request, "target"):
        wanted &= Q(target=target) | Q(target__startswith=f"{target}/") | Q(target__startswith=f"{target}@")
    return wanted & filters.words(filters.text(request, "search"), SEARCHED)


def represent(rows: Iterable[AuditEntry]) -> list[dict[str, Any]]:
    return [
        {
            "id": row.pk,
            "at": row.at,
            "actor": row.actor,
            "origin": row.origin,
            "verb": row.verb,
            "target": row.target,
            "before": row.before,
            "after": row.after,
            "changes": [change._asdict() for change in changes(row.before, row.after)],
            "write": row.write or None,
        }
        for row in rows
    ]


class FieldChange(NamedTuple):
    field: str
    """Dotted path, as in ``timeouts.total_s``."""
    before: Any
    after: Any
    """None on either side: not set there."""


def changes(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """Every field that differs, groups taken apart."""
    if isinstance(before, Mapping | None) and isinstance(after, Mapping | None):
        old, new = before or {}, after or {}
        for name in {**old, **new}:
            yield from changes(old.get(name), new.get(name), f"{path}.{name}" if path else str(name))
    elif before != after:
        yield FieldChange(path, before, after)
