"""Connections to one replica: those that lie idle, and opening new ones.

The connection used last is used first, so that under light load the others grow old and are closed.
They are closed before a replica would do it (servers commonly keep idle connections for 5 s or more),
because a request that meets a closing connection is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from routing.contract.addresses import forbidden_address
from routing.http.last_use import LastUse
from routing.http.sweep import Sweeper
from routing.http.upstream import UpstreamConnection
from routing.http.verified import NotVerified, Verification, open_verified
from routing.http.write_batch import WriteBatch
from routing.processes.descriptors import is_lack

log = logging.getLogger(__name__)

UNREACHABLE = "replica_unreachable"
NOT_VERIFIED = "tls_failed"
CLOSED_AFTER_S = 0.002
"""By then the loop has closed the connections that were given back."""


class Connecting(Protocol):
    """Whoever asked for a new connection."""

    def connected(self, upstream: UpstreamConnection) -> None: ...
    def connect_failed(self, reason: str, code: str) -> None:
        """``code``: UNREACHABLE or NOT_VERIFIED."""

    def connect_prevented(self) -> None:
        """This process has no descriptor left: that says nothing about the replica."""


class UpstreamPool:
    """Idle connections of one worker to one replica."""

    __slots__ = (
        "_give_back",
        "_loop",
        "_max_idle",
        "_max_idle_s",
        "_said",
        "_sweeper",
        "authority",
        "deadline",
        "host",
        "idle",
        "load_told",
        "open",
        "port",
        "verification",
        "writes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sweeper: Sweeper,
        writes: WriteBatch,
        host: str,
        port: int,
        authority: bytes,
        *,
        max_idle: int,
        max_idle_s: float,
        give_back: Callable[[], bool],
        verification: Verification | None = None,
        load_told: Callable[[bytes], None] | None = None,
    ) -> None:
        """``verification``: of a replica that is spoken to over TLS. ``give_back``: for want of descriptors
        closes idle connections to any replica; whether there were any."""
        self._loop = loop
        self._give_back = give_back
        self._sweeper = sweeper
        self.writes = writes
        self._max_idle = max_idle
        self._max_idle_s = max_idle_s
        self.host = host
        self.port = port
        self.authority = authority
        self.verification = verification
        self.load_told = load_told
        self._said = ""
        """Why the last connection was not verified, as the log has it."""
        self.idle: list[UpstreamConnection] = []
        """The one used last is at the end."""
        self.open: set[UpstreamConnection] = set()
        self.deadline = 0.0

    def __repr__(self) -> str:
        return f"<UpstreamPool {self.authority.decode()} open={len(self.open)} idle={len(self.idle)}>"

    def acquire(self) -> UpstreamConnection | None:
        """An idle connection that was open when last heard of, or ``None``."""
        idle = self.idle
        while idle:
            upstream = idle.pop()
            if not upstream.transport.is_closing():
                return upstream
        return None

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        """Take back a connection whose response is complete."""
        upstream.reused = True
        upstream.idle_since = now
        self.idle.append(upstream)
        if len(self.idle) > self._max_idle:
            self.idle.pop(0).discard()

    def connect(self, asker: Connecting) -> Callable[[], bool]:
        """Open a connection; the asker hears of it later, once. Returns what cancels the attempt."""
        task = self._loop.create_task(self._connect(asker))
        return task.cancel

    async def _connect(self, asker: Connecting) -> None:
        upstream = UpstreamConnection(self)
        verification = self.verification
        try:
            try:
                await self._open(upstream, verification)
            except OSError as error:
                if not is_lack(error) or not self._give_back():
                    raise
                await asyncio.sleep(CLOSED_AFTER_S)
                await self._open(upstream, verification)
        except asyncio.CancelledError:
            # The connection may have come about in this very moment.
            upstream.abandon()
            raise
        except NotVerified as error:
            self._say(str(error))
            asker.connect_failed(str(error), NOT_VERIFIED)
            return
        except OSError as error:
            if is_lack(error):
                asker.connect_prevented()
            else:
                asker.connect_failed(error.strerror or str(error), UNREACHABLE)
            return
        if verification is not None:
            self._say("")
            if verification is not self.verification:
                upstream.pool = LastUse(self)
            asker.connected(upstream)
            return
        address = upstream.transport.get_extra_info("peername")[0]
        forbidden = forbidden_address(address)
        if forbidden is not None:
            upstream.discard()
            asker.connect_failed(forbidden, UNREACHABLE)
        else:
            asker.connected(upstream)

    async def _open(self, upstream: UpstreamConnection, verification: Verification | None) -> None:
        """Raises NotVerified, or OSError when the replica cannot be reached."""
        if verification is None:
            await self._loop.create_connection(lambda: upstream, self.host, self.port)
        else:
            await open_verified(self._loop, upstream, self.host, self.port, verification)

    def give_back(self) -> None:
        """Close the connection that has been idle longest."""
        self.idle.pop(0).discard()

    def verify_by(self, verification: Verification) -> None:
        """Verify differently from now on. No connection that was made under the old rules is used for one
        request more: idle ones are closed, busy ones after their answer."""
        self.verification = verification
        last_use = LastUse(self)
        for upstream in self.open:
            upstream.pool = last_use
        idle, self.idle = self.idle, []
        for upstream in idle:
            upstream.discard()

    def _say(self, problem: str) -> None:
        """Log what is wrong with certificates, once each time that this is something else."""
        if problem != self._said:
            self._said = problem
            if problem:
                log.warning("no verified connection to %s: %s", self.authority.decode(), problem)
            else:
                log.info("connections to %s are verified again", self.authority.decode())

    def opened(self, upstream: UpstreamConnection) -> None:
        self.open.add(upstream)
        self._sweeper.add(self)

    def closed(self, upstream: UpstreamConnection) -> None:
        self.open.discard(upstream)
        if upstream in self.idle:
            self.idle.remove(upstream)
        if not self.open:
            self._sweeper.discard(self)

    def check(self, now: float) -> None:
        """Close what has been idle for too long."""
        idle = self.idle
        while idle and now - idle[0].idle_since >= self._max_idle_s:
            idle.pop(0).discard()
        self.deadline = idle[0].idle_since + self._max_idle_s if idle else now + self._max_idle_s
