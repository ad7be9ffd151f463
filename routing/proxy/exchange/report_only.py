"""Report-only mode (dry run) of the exposure guard: for fleets from before the setting ``expose``, in which
nothing is refused and what ``inference`` would refuse is counted.

A body that is still coming is read as it passes. It is neither waited for nor kept. Only what ``inference``
would surely refuse is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from routing.balancing.pool.pool import Pool
from routing.protocols.object_scan import ObjectScan
from routing.protocols.request_info import BadRequestBody
from routing.protocols.strict_form import FormScan
from routing.proxy.errors import RoutingError

log = logging.getLogger(__name__)

_MOST_NOTED = 20
_LONGEST_NOTED = 500


def count(pool: Pool, refusal: RoutingError) -> None:
    """Count a request, and log its refusal once, and a few at most: for who is to choose. The words hold what
    a client sent, so they are cut and escaped."""
    pool.counters.would_refuse += 1
    noted = pool.refusals_noted
    words = ascii(refusal.message[:_LONGEST_NOTED])[1:-1]
    if words in noted or len(noted) >= _MOST_NOTED:
        return
    noted.add(words)
    log.warning(
        "fleet %s has no expose; expose: inference would refuse a request with %d %s: %s%s",
        pool.name,
        refusal.status,
        refusal.code,
        words,
        "; no more of them are logged, all are counted" if len(noted) == _MOST_NOTED else "",
    )


class BodyWatch:
    """Looks at each piece of a body before it is forwarded, and never refuses one."""

    __slots__ = ("_left", "_named", "_pool", "_scan", "_verdict")

    def __init__(
        self, pool: Pool, scan: FormScan | ObjectScan, most: float, verdict: Callable[[str | None], None]
    ) -> None:
        """``most``: bytes of the largest body that would be searched. ``verdict``: raises
        :class:`RoutingError` where this model would be refused; ``None``: the whole body names none."""
        self._pool = pool
        self._scan: FormScan | ObjectScan | None = scan
        self._left = most
        self._verdict = verdict
        self._named = False

    def __call__(self, piece: bytes, complete: bool) -> None:
        scan = self._scan
        if scan is None:
            return
        try:
            self._read(scan, piece, complete)
        except RoutingError as refusal:
            self._scan = None
            count(self._pool, refusal)

    def _read(self, scan: FormScan | ObjectScan, piece: bytes, complete: bool) -> None:
        self._left -= len(piece)
        if self._left < 0:
            words = "the body is too large to be searched for its model"
            raise RoutingError(413, "body_too_large_to_search", words)
        try:
            named = scan.feed(piece)
            if complete:
                scan.finish()
        except BadRequestBody as error:
            raise RoutingError(400, "ambiguous_body", str(error)) from None
        for model in named:
            self._named = True
            self._verdict(model)
        if complete and not self._named:
            self._verdict(None)
