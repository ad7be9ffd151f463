"""Cursor pagination, newest first; pages stay as they are while new rows come: ``?cursor=…&page_size=100``.

A cursor names the last row of a page by its moment and number, and the next page holds what is older
(keyset pagination): rows that are added or deleted meanwhile neither repeat nor hide any other.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from controlplane.api.pagination import Pages

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_CURSOR = re.compile(r"([0-9]{1,17})-([0-9]{1,18})")


def newest_first(
    request: Request, rows: QuerySet[Any], represent: Callable[[Iterable[Any]], list[Any]]
) -> Response:
    """One page of rows that have ``at`` and ``id``. Raises ParseError."""
    size = Pages().get_page_size(request)
    cursor = request.query_params.get("cursor")
    if cursor is not None:
        rows = rows.filter(_older_than(cursor))
    found = list(rows.order_by("-at", "-id")[: size + 1])
    page = found[:size]
    after = None
    if len(found) > size:
        after = replace_query_param(request.build_absolute_uri(), "cursor", _cursor(page[-1]))
    return Response({"next": after, "results": represent(page)})


def _cursor(row: Any) -> str:
    return f"{(row.at - EPOCH) // MICROSECOND}-{row.pk}"


def _older_than(cursor: str) -> Q:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise ParseError("cursor must be copied from the URL in `next`; leave it out for the newest page.")
    at = EPOCH + int(match.group(1)) * MICROSECOND
    return Q(at__lt=at) | Q(at=at, pk__lt=int(match.group(2)))
