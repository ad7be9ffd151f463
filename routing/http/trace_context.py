"""Trace context (W3C ``traceparent``): forwarded if a client sends one, else begun here.

A forwarded trace is not changed: this proxy records no span of its own, so the caller's span stays the parent
of the replica's. An invalid ``traceparent`` is dropped, ``tracestate`` with it, and a new trace is begun, as
§3.2.2 and §4.3 ask. Source: https://www.w3.org/TR/trace-context/.
"""

import os
import re
from collections.abc import Iterator
from itertools import chain, repeat
from random import Random
from struct import Struct

TRACEPARENT = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})"
    rb"-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]*+)?\Z"
)
"""Its first group is the trace's id. Behind the flags only versions later than 00 may have more."""

_BEGIN = b"\r\ntraceparent: 00-"
ALL = 100.0
_DRAWN = 512
_PARTS = Struct("32s16s")
"""The id and the parent's, in hexadecimal digits."""


def trace_parents(sampled_percent: float) -> Iterator[bytes]:
    """Fields that each begin a trace, preceded by CRLF.

    So many of them ask the replica to record it. All digits are random, because recorders that keep a share
    of all traces go by the id's last ones; they are drawn many at a time, because a system call for each
    request would cost more than all else here.
    """
    return chain.from_iterable(_drawn(sampled_percent) for _ in repeat(None))


def _drawn(sampled_percent: float) -> Iterator[bytes]:
    parts = _PARTS.iter_unpack(os.urandom(24 * _DRAWN).hex().encode())
    ids, parents = zip(*parts, strict=True)
    flags = _flags(sampled_percent)
    return map(b"".join, zip(repeat(_BEGIN), ids, repeat(b"-"), parents, flags, strict=False))


def _flags(sampled_percent: float) -> Iterator[bytes]:
    if sampled_percent >= ALL:
        return repeat(b"-01")
    random = Random().random
    return (b"-01" if random() * ALL < sampled_percent else b"-00" for _ in range(_DRAWN))


def trace_id(of_client: bytes | None, begun: bytes) -> bytes:
    """What the client sent, or that of the field which was ``begun`` for it; empty: neither is."""
    return of_client or begun[len(_BEGIN) : len(_BEGIN) + 32]
