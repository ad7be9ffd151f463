"""Trace context (W3C ``traceparent``): forwarded if a client sends one, else begun here.

A forwarded trace is not changed where the proxy records no span of the request: the caller's span stays the
parent of the replica's. Where it does (:mod:`routing.proxy.tracing`), the parent is the span of the attempt.
An invalid ``traceparent`` is dropped, ``tracestate`` with it, and a new trace is begun, as §3.2.2 and §4.3
ask. Source: https://www.w3.org/TR/trace-context/.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from math import log1p
from random import Random
from struct import Struct

TRACEPARENT = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})"
    rb"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]*+)?\Z"
)
"""Behind the flags only versions later than 00 may have more."""

_BEGIN = b"\r\ntraceparent: 00-"
_SAMPLED, _NOT_SAMPLED = b"-01", b"-00"
SAMPLED_END = b"1"
"""How a field ends that was begun here, for a trace that is recorded."""
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


def _flags(sampled_percent: float) -> Iterable[bytes]:
    """Where few are sampled, the gaps between these are drawn (geometric distribution), so that the others
    cost nothing."""
    if sampled_percent >= ALL:
        return repeat(_SAMPLED)
    flags = [_NOT_SAMPLED] * _DRAWN
    if sampled_percent > 0.0:
        random, scale = Random().random, log1p(-sampled_percent / ALL)
        at = int(log1p(-random()) / scale)
        while at < _DRAWN:
            flags[at] = _SAMPLED
            at += 1 + int(log1p(-random()) / scale)
    return flags


def trace_id(of_client: bytes | None, begun: bytes) -> bytes:
    """Of the ``traceparent`` that the client sent, or of the field which was ``begun`` for it; empty: neither
    is."""
    return of_client[3:35] if of_client is not None else begun[len(_BEGIN) : len(_BEGIN) + 32]


def span_id_begun(begun: bytes) -> bytes:
    """The id in a field that was begun here which stands for the caller's span, in hexadecimal digits."""
    at = len(_BEGIN) + 33
    return begun[at : at + 16]


def parent_id(of_client: bytes) -> bytes:
    """The caller's span, of a valid ``traceparent``, in hexadecimal digits."""
    return of_client[36:52]


def is_sampled(of_client: bytes) -> bool:
    """Whether the caller records the trace of this valid ``traceparent``."""
    return int(of_client[53:55], 16) & 1 == 1


def not_sampled(begun: bytes) -> bytes:
    """A field that was begun here, for a trace that is not recorded after all."""
    return begun[:-1] + b"0"


def parent_field(trace: bytes, span: bytes) -> bytes:
    """The field, preceded by CRLF, for a trace that is recorded, and this span of it."""
    return b"%b%b-%b-01" % (_BEGIN, trace, span)
