"""Read turns: large pieces of many connections are read, and written, a few in each turn of the loop."""

import asyncio
from types import SimpleNamespace
from typing import Any

from routing.http.client_connection import ClientConnection
from routing.http.known_heads import KnownHeads
from routing.http.read_turns import AT_ONCE, LARGE, ReadTurns
from routing.http.upstream_connection import SLICE, UpstreamConnection
from routing.http.write_batch import WriteBatch
from tests.routing.http.test_client_connection import Recorder, Transport

REJECTED = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n"


async def turn() -> None:
    """One turn of the loop."""
    await asyncio.sleep(0)


class ClientSocket(Transport):
    """A client that has more to read, as long as it is read; it stays open after the proxy's last write."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return False


async def test_what_comes_of_rejected_requests_is_read_in_turns() -> None:
    """Their clients send on, each of them 256 kB at once, until they have read the response."""
    host = Recorder(asyncio.get_running_loop())
    sockets = []
    clients = []
    for _ in range(3 * AT_ONCE):
        client = ClientConnection(host)
        sockets.append(ClientSocket())
        client.connection_made(sockets[-1])
        client.data_received(REJECTED + bytes(LARGE))
        clients.append(client)
    assert host.refusals == [413] * len(clients)
    assert not any(socket.reads for socket in sockets)
    for _ in range(2):
        for place in range(0, len(sockets), AT_ONCE):
            await turn()
            read = [socket.reads for socket in sockets]
            assert read == [place <= number < place + AT_ONCE for number in range(len(sockets))]
            for client in clients[place : place + AT_ONCE]:
                client.data_received(bytes(LARGE))
    for client in clients:
        host.sweeper.discard(client)


class ReplicaSocket:
    """A replica that takes ``takes`` pieces, and after that pauses the connection at each."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.written: list[bytes] = []
        self.waiting = 0
        self.closed = False
        self.upstream: UpstreamConnection

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def get_extra_info(self, name: str) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def write(self, data: bytes) -> None:
        if len(data) < 100:
            return  # a head
        self.written.append(bytes(data))
        if len(self.written) > self.takes:
            self.waiting = len(data)
            self.upstream.pause_writing()

    def take(self) -> None:
        self.waiting = 0
        self.upstream.resume_writing()

    @property
    def sizes(self) -> list[int]:
        return [len(piece) for piece in self.written]


class Sender:
    """Notes whether the replica keeps up, and how a request ends."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def replica_paused(self, paused: bool) -> None:
        self.heard.append(paused)

    def response(self, head: object, body: bytes, complete: bool, now: float) -> None:
        self.heard.append(body)


def sending(pool: Any, body: bytes, takes: int = 1000) -> tuple[UpstreamConnection, ReplicaSocket, Sender]:
    """A connection that sends this body; its head is written."""
    upstream, socket, sender = UpstreamConnection(pool), ReplicaSocket(takes), Sender()
    socket.upstream = upstream
    upstream.connection_made(socket)  # type: ignore[arg-type]
    upstream.send(sender, b"", False, False)  # type: ignore[arg-type]
    upstream.send_large(body)
    return upstream, socket, sender


def pool_of(released: list[object]) -> Any:
    def nothing(*values: object) -> None: ...

    loop = asyncio.get_running_loop()
    return SimpleNamespace(
        authority=b"a",
        writes=WriteBatch(loop),
        turns=ReadTurns(loop),
        known_heads=KnownHeads(),
        on_load_report=None,
        opened=nothing,
        closed=nothing,
        release=lambda upstream, now: released.append(upstream),
    )


BODY = bytes(range(256)) * 4096
"""Four slices."""
END = b"the end" * 2000
RESPONSE = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok"


async def test_large_bodies_are_sent_in_turns() -> None:
    pool = pool_of([])
    sent = [sending(pool, BODY + END) for _ in range(2 * AT_ONCE)]
    for slices in (1, 2, 3, 4):
        # The first slices of all are written at once, the next ones by AT_ONCE connections in each turn.
        assert [len(socket.sizes) for _, socket, _ in sent] == [slices] * len(sent)
        assert all(upstream.unsent_bytes == len(BODY + END) for upstream, _, _ in sent)
        await turn()
        counts = [len(socket.sizes) for _, socket, _ in sent]
        assert counts == [slices + 1] * AT_ONCE + [slices] * AT_ONCE
        await turn()
    for upstream, socket, sender in sent:
        assert socket.sizes == [SLICE] * 4 + [len(END)]
        assert b"".join(socket.written) == BODY + END
        assert upstream.unsent_bytes == 0
        assert sender.heard == [False]


async def test_a_replica_that_takes_a_slice_now_and_then() -> None:
    """While it has not taken all, the whole body is held."""
    upstream, socket, sender = sending(pool_of([]), BODY, takes=0)
    for slices in (1, 2, 3, 4):
        await turn()
        assert socket.sizes == [SLICE] * slices
        assert upstream.unsent_bytes == len(BODY)
        socket.take()
    assert upstream.unsent_bytes == 0
    assert b"".join(socket.written) == BODY
    assert sender.heard == [True, False] * 4


async def test_after_a_response_before_the_end_of_the_body() -> None:
    """The connection serves no further request, and nothing more is written to it."""
    released: list[object] = []
    pool = pool_of(released)
    for _ in range(2):  # the second time this head is known
        upstream, socket, sender = sending(pool, b"x", takes=1000)
        upstream.data_received(RESPONSE)
        assert released == [upstream]
        upstream.send(sender, b"", False, False)  # type: ignore[arg-type]
        upstream.send_large(BODY)
        upstream.data_received(RESPONSE)
        assert socket.closed
        written = list(socket.written)
        await turn()
        assert socket.written == written
        assert sender.heard == [b"ok", b"ok"]
        assert released.pop() is upstream
