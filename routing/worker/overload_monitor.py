"""Overload monitor: detects that file descriptors or client connections run short, acts, and logs it once.

Theory. Each of these states ends by itself, and the end is logged too:

=============== ==================================================================================
exhausted       no descriptor can be opened: see :mod:`routing.worker.acceptor`. Idle connections to replicas
                stay, because present clients are served over them; a new connection closes an idle one first
"descriptors"   exhausted, or more than ``SCARCE`` of all are in use
"connections"   connections of clients are being refused or displaced for lack of places: see
                :mod:`routing.proxy.limits.connection_limit`
=============== ==================================================================================
"""

import asyncio
import logging
import time
from typing import Literal

from routing.ipc import descriptors
from routing.proxy.limits.connection_limit import ConnectionLimit
from routing.worker.acceptor import Acceptor

log = logging.getLogger(__name__)

EVERY_S = 0.25
COUNT_EVERY_S = 1.0
SCARCE = 0.9
"""Share of all descriptors. The state ends a twentieth below (hysteresis)."""
ENOUGH = 4
"""Descriptors that must be free before connections are accepted again as usual."""

Short = Literal["", "descriptors", "connections"]


class OverloadMonitor:
    """The monitor of one worker. ``most``: client connections as configured; ``None``: what the descriptors
    allow."""

    def __init__(self, connection_limit: ConnectionLimit, most: int | None) -> None:
        self.short_of: Short = ""
        """What the worker is short of."""
        self.in_use = 0
        """Descriptors in use, as counted at most ``COUNT_EVERY_S`` ago; 0: not known."""
        self.limit = 0
        """Descriptors that the process may have."""
        self._connection_limit = connection_limit
        self._most = most
        self._exhausted = False
        self._scarce = False
        self._counted_at = -COUNT_EVERY_S
        self._refused_before = self._displaced_before = 0
        self._sample(time.monotonic())

    async def run(self, acceptor: Acceptor) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            self._sample(now)
            await acceptor.on_exhaustion(self._exhausted)
            self._log_changes(now)

    def _sample(self, now: float) -> None:
        self.limit = limit = descriptors.limit()
        self._connection_limit.set(self._most or descriptors.default_max_connections(limit), limit)
        self._exhausted = descriptors.exhausted(ENOUGH if self._exhausted else 1)
        if now - self._counted_at >= COUNT_EVERY_S:
            self._counted_at = now
            self.in_use = descriptors.in_use()
            self._scarce = self.in_use > limit * (SCARCE - 0.05 if self._scarce else SCARCE)

    def _log_changes(self, now: float) -> None:
        limit = self._connection_limit
        short: Short = ""
        if self._exhausted or self._scarce:
            short = "descriptors"
        elif limit.is_short(now):
            short = "connections"
        if short == self.short_of:
            if not short:
                self._refused_before, self._displaced_before = limit.refused, limit.displaced
            return
        self.short_of = short
        if short == "descriptors":
            words = "%d of %d file descriptors are in use: raise the limit (ulimit -n, LimitNOFILE), or give "
            log.warning(words + "--max-connections a lower number", self.in_use or self.limit, self.limit)
        elif short:
            words = "client connections are closed or refused for lack of places, of which there are %d: "
            log.warning(words + "raise --max-connections or ulimit -n, or add workers", limit.most)
        else:
            words = "there are descriptors and places for connections again; %d connections were refused, "
            refused = limit.refused - self._refused_before
            log.warning(words + "and %d closed for others", refused, limit.displaced - self._displaced_before)
