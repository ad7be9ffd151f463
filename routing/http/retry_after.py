"""Retry-After (RFC 9110 §10.2.3): how long a replica asks not to be sent anything."""

from email.utils import parsedate_to_datetime
from time import time

from routing.http.syntax import LENGTH


def seconds_of(value: bytes) -> float:
    """Seconds from now, as the field's value says: a number of them or a date. 0: it says neither, or the
    date is past."""
    if LENGTH.match(value) is not None:
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value.decode("latin-1")).timestamp() - time())
    except (ValueError, OverflowError):
        return 0.0
