"""The whole proxy of one worker with sockets taken away: bytes in, bytes out, at once and on one thread.

All of the proxy is the real one: parsers, exchange, pool, table. Only the transports are ours, and they do
nothing but keep what is written. One run takes some 50 µs, against milliseconds over sockets.
"""

import asyncio
import socket

from routing.balancing.pool.table import Table
from routing.contract.policy import Ejection, Policy
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.http.upstream_connection import UpstreamConnection
from routing.proxy import Proxy, ProxySettings

FLEET = "m"
_SOCKET = socket.socket()
"""Never connected: whoever asks finds nothing unsent in it."""


class Transport(asyncio.Transport):
    """Keeps what is written to it until it is closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": _SOCKET})
        self.written = bytearray()
        self.ended = False
        """Closed, or our side of it is."""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.ended:
            raise RuntimeError("write after the end")
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = self.aborted = True

    def is_closing(self) -> bool:
        return self.ended


class Wire:
    """One fleet that is also the default, one replica, and as many connections to it as are asked for.

    Construct it inside a running event loop.
    """

    def __init__(self) -> None:
        policy = Policy(strategy="round_robin", ejection=Ejection(consecutive_failures=1_000_000_000))
        replica = ReplicaSpec(uid="u", name="r", url="http://127.0.0.1:9")
        table = Table()
        table.apply_manifest(Manifest(epoch=1, version=1, fleets={FLEET: 1}, default=FLEET))
        table.apply_snapshot(
            FleetSnapshot(
                epoch=1,
                version=1,
                revision=1,
                name=FLEET,
                protocol="openai",
                policy=policy,
                replicas=[replica],
            )
        )
        self.proxy = Proxy(table, ProxySettings())
        self._pool = self.proxy.endpoint(table.fleets[FLEET].replicas[0]).pool

    def client(self) -> tuple[asyncio.Protocol, Transport]:
        """A new connection of a client: what hears its bytes, and what is written to it."""
        connection, transport = self.proxy.connection(), Transport()
        connection.connection_made(transport)
        return connection, transport

    def replicas(self, count: int) -> list[tuple[UpstreamConnection, Transport]]:
        """So many new connections to the replica, idle; the first is used first."""
        self._pool.idle.clear()
        made = []
        for _ in range(count):
            upstream, transport = UpstreamConnection(self._pool), Transport()
            upstream.connection_made(transport)
            made.append((upstream, transport))
        self._pool.idle.extend(upstream for upstream, _ in reversed(made))
        return made

    def is_idle(self, upstream: UpstreamConnection) -> bool:
        """Whether a request might be sent on it."""
        return upstream in self._pool.idle and not upstream.transport.is_closing()

    def settle(self) -> None:
        """The end of the event loop's turn."""
        self.proxy.writes.flush()
