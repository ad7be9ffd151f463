"""Load report of a replica: its own load, from its metrics page or an ORCA header.

A replica counts the requests of all clients, also those that do not come through this proxy. A proxy counts
only its own, but without delay. So the value of a report depends on its age.

A figure that is missing or out of range is ``None``. Leaf: no I/O.
"""

import re
from math import isfinite, nan

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

MOST_REQUESTS = 1_000_000
"""No server has more in flight; a larger number is an error."""
MOST_BYTES = 2**53


class ReportedLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report."""

    running: int | None = None
    """Requests being processed, from all clients."""
    waiting: int | None = None
    """Requests in the replica's own queue."""
    kv_share: float | None = None
    """Share of the KV cache in use, 0 to 1. A batching server with a full KV cache preempts requests."""
    memory_share: float | None = None
    """Share of its devices' memory in use, 0 to 1. Servers that preallocate are near 1 even when idle."""
    memory_bytes: int | None = None
    """The same in bytes."""
    utilization: float | None = None
    """As the server defines it. 1: its rated capacity; more is possible."""
    requests_per_s: float | None = None
    problem: str = ""
    """Why there are no figures, in words; empty: there are some."""
    age_s: float = 0.0
    """Age in seconds when this message was written."""

    @property
    def in_flight(self) -> int | None:
        """Running and waiting; ``None``: neither is reported."""
        if self.running is None and self.waiting is None:
            return None
        return (self.running or 0) + (self.waiting or 0)


_NUMBER = re.compile(rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?+[0-9]{1,3})?")


def parse_number(text: bytes) -> float:
    """A number as servers write it, else NaN. Stricter than Python's ``float``."""
    return float(text) if _NUMBER.fullmatch(text) else nan


def request_count(value: float) -> int | None:
    """A number of requests; ``None``: it cannot be one."""
    return int(value) if 0 <= value <= MOST_REQUESTS else None


def byte_count(value: float) -> int | None:
    """A number of bytes; ``None``: it cannot be one."""
    return int(value) if 0 <= value <= MOST_BYTES else None


def fraction(value: float) -> float | None:
    """0 to 1; ``None``: it is something else."""
    return value if 0.0 <= value <= 1.0 else None


def non_negative(value: float) -> float | None:
    """Any number from 0 up."""
    return value if isfinite(value) and value >= 0 else None


def younger(one: ReportedLoad | None, other: ReportedLoad | None) -> ReportedLoad | None:
    """The younger of two reports of one replica; one with figures goes before one without."""
    if one is None or other is None:
        return one or other
    if bool(one.problem) != bool(other.problem):
        return other if one.problem else one
    return one if one.age_s <= other.age_s else other


def encode_report(report: ReportedLoad) -> bytes:
    return msgspec.json.encode(report)


def decode_stored(stored: bytes, now_ms: int) -> ReportedLoad | None:
    """A report as stored in Redis (time by Redis's clock, then JSON), with its age.

    ``None``: it cannot be decoded, because another version wrote it.
    """
    at_ms, _, body = stored.partition(b" ")
    try:
        report = msgspec.json.decode(body, type=ReportedLoad)
        age_s = max(now_ms - int(at_ms), 0) / 1000
    except (ValueError, *DECODE_ERRORS):
        return None
    return msgspec.structs.replace(report, age_s=age_s)
