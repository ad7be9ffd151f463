"""Filtered lists, newest first: what ``/events`` and ``/audit`` share, their filters, each said once.

A :class:`Filter` is the query parameter, its words in the API's documents and the rows that it leaves.
"""

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from controlplane.api import filters
from controlplane.api.openapi_operations import SEARCH, SINCE, UNTIL


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    """Of the query parameter."""
    words: str
    rows: Callable[[str], Q] | None = None
    """The value → which rows; may raise ParseError or NotFound. None: the column of that name equals it."""

    def wanted(self, value: str) -> Q:
        return Q(**{self.name: value}) if self.rows is None else self.rows(value)


class FilteredList:
    """Rows that have ``at``, given out newest first."""

    def __init__(self, *own: Filter, searched: tuple[str, ...]) -> None:
        """``searched``: the columns in which ``search`` looks for each of its words."""
        self._own = own
        self._searched = searched
        self.query_parameters = (
            *(each.name for each in own),
            *("since", "until", "search", "cursor", "page_size"),
        )
        self.documented = (
            *(OpenApiParameter(each.name, str, description=each.words) for each in own),
            *(SINCE, UNTIL, SEARCH),
        )

    def wanted(self, request: Request) -> Q:
        """The rows that the request asks for. Raises ParseError, and what a filter of its own raises."""
        result = filters.within(request)
        for each in self._own:
            if value := filters.text(request, each.name):
                result &= each.wanted(value)
        return result & filters.search(request, *self._searched)
