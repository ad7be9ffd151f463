"""``/audit``: who changed what, before and after, and from where."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.cursor_pagination import newest_first
from controlplane.api.filtered_lists import Filter, FilteredList
from controlplane.api.openapi_operations import lists_newest
from controlplane.api.serializers.audit import AuditEntrySerializer
from controlplane.models import AuditEntry


def _within(target: str) -> Q:
    return Q(target=target) | Q(target__startswith=f"{target}/") | Q(target__startswith=f"{target}@")


AUDIT = FilteredList(
    Filter("actor", "Only changes made by this user."),
    Filter("verb", "Only changes with this verb, for example `replicas.update`."),
    Filter(
        "target", "Only changes of this object and of what belongs to it: `llm` includes `llm/a`.", _within
    ),
    Filter("origin", "`session`, `server`, or `token sy_…`."),
    Filter("write", "Only changes of this transaction: the `write` of an event."),
    searched=("actor", "verb", "target", "origin"),
)


class AuditList(ApiView):
    query_parameters = AUDIT.query_parameters

    @lists_newest(
        "list_audit",
        "Who changed what, and from where, newest first",
        AuditEntrySerializer,
        *AUDIT.documented,
    )
    def get(self, request: Request) -> Response:
        return newest_first(request, AuditEntry.objects.filter(AUDIT.wanted(request)), represent)


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
