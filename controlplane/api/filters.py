"""Query filters: reads the query parameters that select rows by time, search words or name."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

LONGEST = 200
"""Characters of a search; more is a mistake."""
_BACK = re.compile(r"([0-9]{1,5})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def text(request: Request, name: str) -> str:
    """The parameter, or nothing. Raises ParseError for what no row can hold."""
    value = request.query_params.get(name, "").strip()
    if "\x00" in value:
        raise ParseError(f"{name} contains a NUL character: remove it.")
    if len(value) > LONGEST:
        raise ParseError(f"{name} is longer than {LONGEST} characters.")
    return value


def search(request: Request, *columns: str) -> Q:
    """The rows that hold every word of the parameter ``search``; all without it. Raises ParseError."""
    return words(text(request, "search"), columns)


def words(wanted: str, columns: Sequence[str]) -> Q:
    """Every word occurs in some column, in upper or lower case."""
    result = Q()
    for word in wanted.split():
        anywhere = Q()
        for column in columns:
            anywhere |= Q(**{f"{column}__icontains": word})
        result &= anywhere
    return result


def within(request: Request) -> Q:
    """``at`` between ``since`` (inclusive) and ``until`` (exclusive), as far as they are given."""
    since, until = moment(request, "since"), moment(request, "until")
    if since and until and until <= since:
        raise ParseError("until must be after since.")
    result = Q()
    if since:
        result &= Q(at__gte=since)
    if until:
        result &= Q(at__lt=until)
    return result


def moment(request: Request, name: str) -> datetime | None:
    """``2026-11-21`` or ``2026-11-21T10:00:00Z`` (UTC where no zone is written), or ``90m``, ``7d`` ago."""
    written = text(request, name)
    if not written:
        return None
    if back := _BACK.fullmatch(written):
        return timezone.now() - int(back.group(1)) * _UNITS[back.group(2)]
    # A "+" that was not encoded arrives as a space.
    found = _date_or_time(written.replace(" ", "+") if "T" in written else written)
    if found is None:
        raise ParseError(
            f"{name} must be a date (2026-11-21), a time (2026-11-21T10:00:00Z) or an age (90m, 24h, 7d), "
            f'not "{written[:40]}".'
        )
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _date_or_time(written: str) -> datetime | None:
    try:
        if found := parse_datetime(written):
            return found
        day = parse_date(written)
    except ValueError:  # well written, and no such day
        return None
    return datetime(day.year, day.month, day.day) if day else None
