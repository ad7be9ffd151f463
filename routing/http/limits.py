"""Connection limits: sizes and times that bound one client connection, and the body of a request on it."""

from math import inf
from typing import NamedTuple

import msgspec

PROGRESS_BYTES = 1024
"""Fewer bytes than this are no progress: a client that sends a byte a minute has stalled."""


class BodyLimits(NamedTuple):
    """Bounds of one request's body: of its fleet, once that is known."""

    max_bytes: int
    grace_s: float
    """It may take this long, plus one second for every ``min_bytes_per_s`` received."""
    min_bytes_per_s: float
    stall_s: float = inf
    """Less than ``PROGRESS_BYTES`` within this time is too little."""
    total_s: float = inf
    """It may take this long in all, whatever its rate."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The same for all connections. Sizes in bytes, times in seconds."""

    max_target: int = 16_384
    """Longest request target; RFC 9112 §3 asks for at least 8,000."""
    max_head: int = 65_536
    max_fields: int = 128
    max_pipelined: int = 65_536
    """Bytes of further requests held while one is being answered; then reading stops."""
    keep_alive_s: float = 75.0
    write_stall_s: float = 60.0
    """A client that takes no byte of its answer for this long is cut off."""
    linger_s: float = 1.0
    linger_bytes: int = 262_144
    """After an early answer, what is still arriving is read and dropped up to these bounds."""
