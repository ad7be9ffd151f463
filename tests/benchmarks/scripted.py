"""A scripted replica in a process of its own, which says when something happens at its sockets.

A request's target ends in ``/SCRIPT/NUMBER``; the number is how its client tells it from others. What happens
is reported over a pipe, stamped with ``time.monotonic()``, which all processes of a machine share.

=========== ==========================================================================================
``hang``    nothing is answered
``sse``     one event of a chunked answer, then silence
``length``  the beginning of an answer with a Content-Length, then silence
``flood``   an answer of 100 MiB, as fast as it is taken
``tiny``    an answer of 100,000 chunks of one byte, each written by itself
``drip``    20 events, 50 ms apart, each of which tells when it was written; chunked
``until``   the same, ended by closing
``small``   an answer of 1 KiB, at once
``deaf``    reads no more once the head has come
``ws``      switches protocols, then reads
``wsdeaf``  switches protocols, then reads no more
``wsflood`` switches protocols, then sends frames without end
=========== ==========================================================================================
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import multiprocessing
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import NamedTuple

EVENTS, EVENT_EVERY_S = 20, 0.05
FLOOD = 100 << 20
TINY_CHUNKS = 100_000
STALLED_AFTER_S = 0.05
"""Without a byte written for so long, whoever reads has stopped."""
_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
_FRAME = b"\x82\x7e\x04\x00" + bytes(1024)
_ANSWERS = {
    "sse": _CHUNKED + b"b\r\ndata: one\n\n\r\n",
    "length": _OK + b"Content-Length: 1000000\r\n\r\n" + bytes(1000),
    "small": _OK + b"Content-Length: 1024\r\n\r\n" + bytes(1024),
    "flood": _OK + b"Content-Length: %d\r\n\r\n" % FLOOD,
    "tiny": _CHUNKED,
    "drip": _CHUNKED,
    "until": _OK + b"Content-Type: text/event-stream\r\n\r\n",
    "ws": _SWITCHED,
    "wsdeaf": _SWITCHED,
    "wsflood": _SWITCHED,
}
_ENDLESS = {
    "flood": (bytes(65_536), FLOOD // 65_536),
    "tiny": (b"1\r\nx\r\n", TINY_CHUNKS),
    "wsflood": (_FRAME, FLOOD // len(_FRAME)),
}
"""Piece after piece: what, and how many."""


class Event(NamedTuple):
    """``what``: ``request`` (its head has come), ``stalled`` (nobody takes what is written) or ``gone``."""

    what: str
    number: int
    at: float


class ScriptedReplica:
    """The other end of the pipe."""

    def __init__(self, port: int, pipe: Connection) -> None:
        self.port = port
        self._pipe = pipe
        self._seen: dict[tuple[str, int], float] = {}

    def when(self, what: str, number: int, limit_s: float = 2.0) -> float | None:
        """When it happened; ``None``: not within the limit."""
        end = time.monotonic() + limit_s
        while (what, number) not in self._seen:
            if not self._pipe.poll(max(0.0, end - time.monotonic())):
                return None
            event = Event(*self._pipe.recv())
            self._seen.setdefault((event.what, event.number), event.at)
        return self._seen.pop((what, number))

    def requests(self) -> int:
        """Of those not yet asked for: how many have come."""
        while self._pipe.poll(0):
            event = Event(*self._pipe.recv())
            self._seen.setdefault((event.what, event.number), event.at)
        return sum(what == "request" for what, _ in self._seen)

    def forget(self) -> None:
        """Take what was said, for a full pipe would stop the replica."""
        self.requests()
        self._seen.clear()


@contextmanager
def scripted_replica() -> Iterator[ScriptedReplica]:
    """Runs until the context ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, theirs), daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    try:
        yield ScriptedReplica(port, ours)
    finally:
        process.kill()
        process.join()


class _Peer:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""
        self.number = -1
        self.script = ""
        self.left = 0
        """Pieces still to be written."""
        self.unsent = b""
        self.moved_at = 0.0
        self.writing = False


class _Server:
    def __init__(self, listener: socket.socket, pipe: Connection) -> None:
        self._listener = listener
        self._pipe = pipe
        self._epoll = select.epoll()
        self._epoll.register(listener, select.EPOLLIN)
        self._peers: dict[int, _Peer] = {}
        self._timers: list[tuple[float, int, _Peer, int]] = []
        self._order = itertools.count()

    def run(self) -> None:
        while True:
            wait = self._timers[0][0] - time.monotonic() if self._timers else 1.0
            for fd, events in self._epoll.poll(max(0.0, min(wait, STALLED_AFTER_S / 2))):
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    with contextlib.suppress(OSError):
                        self._react(self._peers[fd], events)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                _, _, peer, count = heapq.heappop(self._timers)
                with contextlib.suppress(OSError):
                    self._drip(peer, count)
            for peer in list(self._peers.values()):
                if peer.writing and peer.moved_at and now - peer.moved_at > STALLED_AFTER_S:
                    self._say("stalled", peer)
                    peer.moved_at = 0.0

    def _say(self, what: str, peer: _Peer) -> None:
        self._pipe.send((what, peer.number, time.monotonic()))

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[sock.fileno()] = _Peer(sock)
        self._epoll.register(sock, select.EPOLLIN | select.EPOLLRDHUP)

    def _react(self, peer: _Peer, events: int) -> None:
        if events & _GONE:
            self._say("gone", peer)
            self._forget(peer)
            return
        if events & select.EPOLLIN:
            data = peer.sock.recv(262_144)
            if not peer.script:
                peer.received += data
                if b"\r\n\r\n" in peer.received:
                    self._begin(peer)
        if events & select.EPOLLOUT:
            self._pump(peer)

    def _forget(self, peer: _Peer) -> None:
        if self._peers.pop(peer.sock.fileno(), None) is not None:
            self._epoll.unregister(peer.sock)
            peer.sock.close()

    def _begin(self, peer: _Peer) -> None:
        target = peer.received.split(b" ", 2)[1].decode()
        _, peer.script, number = target.rsplit("/", 2)
        peer.number = int(number)
        peer.received = b""
        self._say("request", peer)
        peer.sock.sendall(_ANSWERS.get(peer.script, b""))
        if peer.script in ("deaf", "wsdeaf"):
            self._epoll.modify(peer.sock, select.EPOLLRDHUP)
        elif peer.script in ("drip", "until"):
            self._later(peer, 0)
        elif peer.script == "small":
            peer.script = ""
        elif peer.script in _ENDLESS:
            peer.left = _ENDLESS[peer.script][1]
            self._pump(peer)

    def _pump(self, peer: _Peer) -> None:
        """Write as much as is taken, in turns, so that no peer starves the others."""
        piece = _ENDLESS[peer.script][0]
        try:
            for _ in range(200):
                if not peer.unsent:
                    if not peer.left:
                        break
                    peer.left -= 1
                    peer.unsent = piece
                peer.unsent = peer.unsent[peer.sock.send(peer.unsent) :]
                peer.moved_at = time.monotonic()
        except BlockingIOError:
            pass
        writing = bool(peer.unsent or peer.left)
        if writing != peer.writing:
            peer.writing = writing
            more = select.EPOLLOUT if writing else 0
            self._epoll.modify(peer.sock, select.EPOLLIN | select.EPOLLRDHUP | more)
        if not writing and peer.script == "flood":
            peer.script = ""  # Another request may follow.

    def _later(self, peer: _Peer, count: int) -> None:
        heapq.heappush(self._timers, (time.monotonic() + EVENT_EVERY_S, next(self._order), peer, count))

    def _drip(self, peer: _Peer, count: int) -> None:
        if peer.sock.fileno() < 0:
            return
        chunked = peer.script == "drip"
        if count == EVENTS:
            if chunked:
                peer.sock.sendall(b"0\r\n\r\n")
                peer.script = ""
            else:
                self._forget(peer)
            return
        self._later(peer, count + 1)
        event = b"data: %017.6f\n\n" % time.monotonic()
        peer.sock.sendall(b"%x\r\n%b\r\n" % (len(event), event) if chunked else event)


def _serve(listener: socket.socket, pipe: Connection) -> None:
    _Server(listener, pipe).run()
