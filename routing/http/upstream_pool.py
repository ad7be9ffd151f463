"""Upstream connection pool of one replica: idle keep-alive connections, and opening new ones.

The most recently used connection is used first, so that under light load the others grow old and are closed.
They are closed before a replica would close them (servers commonly keep idle connections for 5 s or more),
because a request that meets a closing connection is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from routing.contract import address_policy
from routing.contract.address_policy import DeniedAddress
from routing.http.held_heads import HeldHeads
from routing.http.local_errors import local_error
from routing.http.name_resolver import NameResolver
from routing.http.read_turns import ReadTurns
from routing.http.timeout_sweeper import TimeoutSweeper
from routing.http.tls_connect import TlsConnectError, Verification, open_tls_connection
from routing.http.upstream_connection import UpstreamConnection
from routing.http.write_batch import WriteBatch
from routing.ipc.descriptors import is_out_of_descriptors

log = logging.getLogger(__name__)

UNREACHABLE: Final = "replica_unreachable"
NOT_VERIFIED: Final = "tls_failed"
ADDRESS_DENIED: Final = "address_denied"
NO_DESCRIPTOR: Final = "descriptors_exhausted"
LOCAL_ERROR: Final = "connect_prevented"
CLOSED_AFTER_S: Final = 0.002
"""By then the loop has closed the connections that were given back."""


class ConnectListener(Protocol):
    """The requester of a new connection. Crosses a layer: the proxy's exchange is one."""

    def connected(self, upstream: UpstreamConnection) -> None: ...
    def connect_failed(self, reason: str, code: str) -> None:
        """``code``: UNREACHABLE, NOT_VERIFIED or ADDRESS_DENIED."""

    def connect_prevented(self, reason: str, code: str) -> None:
        """This host can open no connection: that says nothing about the replica. ``code``: NO_DESCRIPTOR or
        LOCAL_ERROR."""


class UpstreamPool:
    """Idle connections of one worker to one replica."""

    __slots__ = (
        "_evict_idle",
        "_lacks",
        "_loop",
        "_max_idle",
        "_max_idle_s",
        "_name",
        "_said",
        "_sweeper",
        "authority",
        "deadline",
        "heads",
        "host",
        "idle",
        "on_idle_closed",
        "on_load_report",
        "open",
        "port",
        "turns",
        "verification",
        "writes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sweeper: TimeoutSweeper,
        writes: WriteBatch,
        turns: ReadTurns,
        heads: HeldHeads,
        names: NameResolver,
        host: str,
        port: int,
        authority: bytes,
        *,
        max_idle: int,
        max_idle_s: float,
        evict_idle: Callable[[], bool],
        verification: Verification | None = None,
        on_load_report: Callable[[bytes], None] | None = None,
        on_idle_closed: Callable[[], None] | None = None,
    ) -> None:
        """``verification``: of a replica that is spoken to over TLS. ``evict_idle``: for want of descriptors
        closes idle connections to any replica; whether there were any. ``on_idle_closed``: called when the
        replica has closed the last connection, which was idle."""
        self._loop = loop
        self._evict_idle = evict_idle
        self._sweeper = sweeper
        self.writes = writes
        self.turns = turns
        self.heads = heads
        self._max_idle = max_idle
        self._max_idle_s = max_idle_s
        self.host = host
        self._name = names.name(host)
        """``None``: the host is an IP address."""
        self.port = port
        self.authority = authority
        self.verification = verification
        self.on_load_report = on_load_report
        self.on_idle_closed = on_idle_closed
        self._said = ""
        """Why the last connection was not verified, as the log has it."""
        self._lacks = ""
        """What this host lacked for the last one."""
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

    def connect(self, asker: ConnectListener) -> Callable[[], bool]:
        """Open a connection; the asker hears of it later, once. Returns what cancels the attempt."""
        task = self._loop.create_task(self._connect(asker))
        return task.cancel

    async def _connect(self, asker: ConnectListener) -> None:
        upstream = UpstreamConnection(self)
        verification = self.verification
        try:
            try:
                await self._open(upstream, verification)
            except OSError as error:
                if not is_out_of_descriptors(error) or not self._evict_idle():
                    raise
                await asyncio.sleep(CLOSED_AFTER_S)
                await self._open(upstream, verification)
        except asyncio.CancelledError:
            # The connection may have come about in this very moment.
            upstream.abandon()
            raise
        except TlsConnectError as error:
            self._say(str(error))
            asker.connect_failed(str(error), NOT_VERIFIED)
            return
        except OSError as error:
            self._prevented(asker, error)
            return
        self._lacks = ""
        if verification is not None:
            self._say("")
            if verification is not self.verification:
                upstream.pool = ClosingHandle(self)
        asker.connected(upstream)

    def _prevented(self, asker: ConnectListener, error: OSError) -> None:
        """There is no connection, by the replica's fault or this host's."""
        if is_out_of_descriptors(error):
            asker.connect_prevented("it has no file descriptor left", NO_DESCRIPTOR)
        elif reason := local_error(error):
            if reason != self._lacks:
                self._lacks = reason
                log.warning("this host can open no connection to %s: %s", self.authority.decode(), reason)
            asker.connect_prevented(reason, LOCAL_ERROR)
        elif isinstance(error, DeniedAddress):
            asker.connect_failed(str(error), ADDRESS_DENIED)
        else:
            asker.connect_failed(error.strerror or str(error), UNREACHABLE)

    async def _open(self, upstream: UpstreamConnection, verification: Verification | None) -> None:
        """Raises TlsConnectError, or OSError when the replica cannot be reached."""
        if verification is None:
            await self._open_tcp(lambda: upstream)
        else:
            await open_tls_connection(self._loop, upstream, self._open_tcp, verification)

    async def _open_tcp(self, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> None:
        address_policy.in_force().refuse_host(self.host, self.port)
        if self._name is None:
            await self._loop.create_connection(protocol_factory, self.host, self.port)
        else:
            await self._name.connect(protocol_factory, self.port)

    @property
    def waits_for(self) -> str:
        """What new connections wait for but the replica, in words that follow others; or empty."""
        if self._name is not None and self._name.is_silent:
            return f": DNS has given no address of {self.host} yet"
        return ""

    def evict_idle(self) -> None:
        """Close the connection that has been idle longest."""
        self.idle.pop(0).discard()

    def verify_by(self, verification: Verification) -> None:
        """Verify differently from now on. No connection that was made under the old rules is used for one
        request more: idle ones are closed, busy ones after their answer."""
        self.verification = verification
        closing = ClosingHandle(self)
        for upstream in self.open:
            upstream.pool = closing
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
        was_idle = upstream in self.idle
        if was_idle:
            self.idle.remove(upstream)
        if not self.open:
            self._sweeper.discard(self)
            if was_idle and self.on_idle_closed is not None:
                self.on_idle_closed()

    def check(self, now: float) -> None:
        """Close what has been idle for too long."""
        idle = self.idle
        while idle and now - idle[0].idle_since >= self._max_idle_s:
            idle.pop(0).discard()
        self.deadline = idle[0].idle_since + self._max_idle_s if idle else now + self._max_idle_s


class ClosingHandle:
    """Stands for the pool at connections that are closed after their present response: a released one is not
    pooled again."""

    __slots__ = ("_pool", "authority", "heads", "on_load_report", "turns", "writes")

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self.authority = pool.authority
        self.writes = pool.writes
        self.turns = pool.turns
        self.heads = pool.heads
        self.on_load_report = pool.on_load_report

    def opened(self, upstream: UpstreamConnection) -> None:
        self._pool.opened(upstream)

    def closed(self, upstream: UpstreamConnection) -> None:
        self._pool.closed(upstream)

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        upstream.discard()
