"""Closing handle: connections that it owns are closed after the answer they are busy with."""

from __future__ import annotations

from routing.http.upstream_connection import PoolHandle, UpstreamConnection


class ClosingHandle:
    """Takes the place of a connection's pool; takes nothing back."""

    __slots__ = ("_pool", "authority", "on_load_report", "writes")

    def __init__(self, pool: PoolHandle) -> None:
        self._pool = pool
        self.authority = pool.authority
        self.writes = pool.writes
        self.on_load_report = pool.on_load_report

    def opened(self, upstream: UpstreamConnection) -> None:
        self._pool.opened(upstream)

    def closed(self, upstream: UpstreamConnection) -> None:
        self._pool.closed(upstream)

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        upstream.discard()
