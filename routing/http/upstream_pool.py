"""Connections to one replica: those that lie idle, and opening new ones.

The connection used last is used first, so that under light load the others grow old and are closed.
They are closed before a replica would do it (servers commonly keep idle connections for 5 s or more),
because a request that meets a closing connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from routing.contract.addresses import forbidden_address
from routing.http.sweep import Sweeper
from routing.http.upstream import UpstreamConnection
from routing.http.write_batch import WriteBatch


class Connecting(Protocol):
    """Whoever asked for a new connection."""

    def connected(self, upstream: UpstreamConnection) -> None: ...
    def connect_failed(self, reason: str) -> None: ...


class UpstreamPool:
    """Idle connections of one worker to one replica."""

    __slots__ = (
        "_loop",
        "_max_idle",
        "_max_idle_s",
        "_sweeper",
        "authority",
        "deadline",
        "host",
        "idle",
        "open",
        "port",
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
    ) -> None:
        self._loop = loop
        self._sweeper = sweeper
        self.writes = writes
        self._max_idle = max_idle
        self._max_idle_s = max_idle_s
        self.host = host
        self.port = port
        self.authority = authority
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
        try:
            await self._loop.create_connection(lambda: upstream, self.host, self.port)
        except asyncio.CancelledError:
            # The connection may have come about in this very moment.
            upstream.abandon()
            raise
        except OSError as error:
            asker.connect_failed(error.strerror or str(error))
            return
        address = upstream.transport.get_extra_info("peername")[0]
        forbidden = forbidden_address(address)
        if forbidden is not None:
            upstream.discard()
            asker.connect_failed(forbidden)
        else:
            asker.connected(upstream)

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
