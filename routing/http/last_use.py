"""The owner of connections that are closed after the answer they are busy with."""

from __future__ import annotations

from routing.http.upstream import Owner, UpstreamConnection


class LastUse:
    """Takes the place of a connection's pool; takes nothing back."""

    __slots__ = ("_pool", "authority", "load_told", "writes")

    def __init__(self, pool: Owner) -> None:
        self._pool = pool
        self.authority = pool.authority
        self.writes = pool.writes
        self.load_told = pool.load_told

    def opened(self, upstream: UpstreamConnection) -> None:
        self._pool.opened(upstream)

    def closed(self, upstream: UpstreamConnection) -> None:
        self._pool.closed(upstream)

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        upstream.discard()
