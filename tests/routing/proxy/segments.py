"""In which segments the proxy reads: what is sent byte by byte proves something only if it is read so."""

import asyncio
import time

from routing.http.client_connection import ClientConnection
from routing.http.interfaces import ClientHost
from routing.http.upstream_connection import PoolHandle, UpstreamConnection

_ALONE = 1500
"""So many bytes of a longer piece stand alone at either end; those between them come in one segment."""


class NotedClient(asyncio.Protocol):
    """Counts what a client's connection reads, and the segments it came in."""

    def __init__(self, host: ClientHost, by_port: "dict[int, NotedClient]") -> None:
        """``by_port``: where it is found by its client's port."""
        self._connection = connection = ClientConnection(host)
        self._by_port = by_port
        self.transport: asyncio.Transport
        self.received = self.segments = 0
        self.eof_received = connection.eof_received  # type: ignore[method-assign]
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._connection.connection_made(transport)
        self._by_port[transport.get_extra_info("peername")[1]] = self

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.segments += 1
        self._connection.data_received(data)


class NotedUpstream(UpstreamConnection):
    """The same, of what a replica sends."""

    __slots__ = ("received", "segments")

    by_port: dict[int, "NotedUpstream"] = {}

    def __init__(self, pool: PoolHandle) -> None:
        super().__init__(pool)
        self.received = self.segments = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.by_port[transport.get_extra_info("sockname")[1]] = self

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.segments += 1
        super().data_received(data)


Noted = NotedClient | NotedUpstream


async def write_bytewise(transport: asyncio.WriteTransport, reader: Noted, data: bytes) -> None:
    """Each byte goes once the proxy has read the one before, or has stopped reading."""
    for piece in _pieces(data):
        if transport.is_closing() or reader.transport.is_closing():
            return
        wanted, segments = reader.received + len(piece), reader.segments
        transport.write(piece)
        end = time.monotonic() + 5
        while reader.received < wanted and not reader.transport.is_closing():
            assert time.monotonic() < end, "the proxy has not read a byte in time"
            await asyncio.sleep(0)
        assert len(piece) > 1 or reader.segments <= segments + 1


def _pieces(data: bytes) -> list[bytes]:
    if len(data) <= 2 * _ALONE:
        return [data[at : at + 1] for at in range(len(data))]
    between = data[_ALONE:-_ALONE]
    return [*_pieces(data[:_ALONE]), between, *_pieces(data[-_ALONE:])]
