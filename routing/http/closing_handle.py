"""Closing handle: connections that it owns are closed after their present response."""

from __future__ import annotations

from routing.http.upstream_connection import PoolHandle, UpstreamConnection


class ClosingHandle:
    """Replaces a connection's pool; a released connection is not pooled again."""

    __slots__ = ("_pool", "authority", "on_load_report", "turns", "writes")

    def __init__(self, pool: PoolHandle) -> None:
        self._pool = pool
        self.authority = pool.authority
        self.writes = pool.writes
        self.turns = pool.turns
        self.on_load_report = pool.on_load_report

    def opened(self, upstream: UpstreamConnection) -> None:
        self._pool.opened(upstream)

    def closed(self, upstream: UpstreamConnection) -> None:
        self._pool.closed(upstream)

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        upstream.discard()
