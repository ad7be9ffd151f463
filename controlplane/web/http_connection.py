"""Slow loris protection: time and size limits of a connection of the web process, in uvicorn's HTTP protocol.

uvicorn waits for ever for a request head that is never finished, keeps as much of one as is sent, and lets
a client that reads nothing hold its connection. Here are limits, for
``uvicorn --http controlplane.web.http_connection:HttpConnection``; those of bodies: ``request_limits.py``.

uvicorn also parses all that one read has brought, thousands of pipelined requests, before anybody else is
served. Here a connection parses little in one turn of the loop, and nothing beyond a whole request until that
one is answered; meanwhile it is not read.
"""

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_S = 10.0
"""A request head is complete within this many seconds, of the connection's begin or the head's first byte."""
HEAD_BYTES = 64 * 1024
"""Of a head; also of chunk extensions and trailers between two pieces of a body."""
SEND_S = 60.0
"""A client that takes nothing for so long is disconnected."""
MOST_CONNECTIONS = 2000
PIPELINED_BYTES = 64 * 1024
"""Of further requests that came while one is served."""
PIECE_BYTES = 256
"""Parsed at once of a body: where it ends is not known before, and a few requests may follow in the piece."""
PIECES_AT_ONCE = 64
"""In one turn of the loop."""
HEAD_END = b"\r\n\r\n"


def most_connections() -> int:
    """Half of the process's file descriptors: the others are for WebSockets, the database and Redis."""
    return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class HeldFlow(FlowControl):
    """Applications that ask for more, or whether the client has left, read on. Not while it is ``held``."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()

    def hold(self) -> None:
        self.held = True
        self.pause_reading()

    def release(self) -> None:
        if self.held:
            self.held = False
            self.resume_reading()


class HttpConnection(HttpToolsProtocol):
    """One connection. Where there are too many, the one that has waited longest for a head gives way."""

    waiting: dict["HttpConnection", None] = {}
    """Connections of this process without a complete head, in the order in which they began to wait."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if isinstance(config.loaded_app, ProxyHeadersMiddleware):
            # Without --no-proxy-headers: it believes whoever connects from loopback. forwarded_headers.py
            # knows better.
            config.loaded_app = config.loaded_app.app
        super().__init__(config, server_state, app_state, _loop)
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._head_begun = False
        self._unbodied = 0  # bytes read since the last piece of a body, or since a head was complete
        self._unparsed = b""
        self._parsed = 0  # bytes of it that are
        self._drops = False
        self._turn: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: HeldFlow = HeldFlow(transport)
        self._wait_for_head()
        if len(self.connections) > most_connections():
            next(iter(self.waiting)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_sending_timer()
        self._unparsed = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._drops:
            return
        self._unparsed = self._unparsed[self._parsed :] + data
        self._parsed = 0
        self._parse_on()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_begun = True

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unbodied = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unbodied = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later()
        elif self._unparsed:
            self._parse_later()
        elif not self.pipeline:
            self.waiting[self] = None

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._abort_later()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(SEND_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_sending_timer()

    def _unsupported_upgrade_warning(self) -> None:
        """What follows is of another protocol. uvicorn drops the rest of the piece, which may not be all."""
        super()._unsupported_upgrade_warning()
        self._parsed = len(self._unparsed)

    def _parse_on(self) -> None:
        """As far as it goes in this turn. What is left waits, for the next turn or for an answer."""
        self._turn = None
        self.flow.release()
        for _ in range(PIECES_AT_ONCE):
            if not self._is_open():
                return  # it is a WebSocket from now on, or ends
            if self._parsed == len(self._unparsed) or self._is_serving():
                break
            self._parse(self._next_piece())
        if not self._is_open():
            return
        left = len(self._unparsed) - self._parsed
        is_serving = self._is_serving()
        if is_serving and left > PIPELINED_BYTES:
            self._drop()
        elif left:
            self.flow.hold()
            if not is_serving:
                self._parse_later()
        else:
            self._unparsed, self._parsed = b"", 0
        if self._head_timer is None and self._is_idle():
            self._wait_for_head()  # also after empty lines, which end uvicorn's own limit of idle connections

    def _parse_later(self) -> None:
        if self._turn is None:
            self._turn = self.loop.call_soon(self._parse_on)

    def _next_piece(self) -> bytes:
        """A head to its end, of which each has one, so that no second request is in it; or some of a body."""
        begin = self._parsed
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self._parsed = min(begin + PIECE_BYTES, len(self._unparsed))
        else:
            end = self._unparsed.find(HEAD_END, begin)
            self._parsed = len(self._unparsed) if end < 0 else end + len(HEAD_END)
        return self._unparsed[begin : self._parsed]

    def _parse(self, piece: bytes) -> None:
        self._unbodied += len(piece)
        super().data_received(piece)
        if self._unbodied > HEAD_BYTES and self._is_open():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _drop(self) -> None:
        """The connection ends with the answer to what has been parsed. It is still read: one that is closed
        with bytes unread is reset, and the client may not get that answer."""
        self._drops = True
        self._unparsed, self._parsed = b"", 0
        self.cycle.keep_alive = False

    def _is_open(self) -> bool:
        return self in self.connections and not self.transport.is_closing()

    def _is_serving(self) -> bool:
        """Whether a request that has arrived whole is not answered yet."""
        return bool(self.pipeline) or not (self._is_idle() or self.cycle.more_body)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self.waiting[self] = None
        self._head_timer = self.loop.call_later(HEAD_S, self._head_is_late)

    def _stop_waiting(self) -> None:
        self.waiting.pop(self, None)
        self._head_begun = False
        self._unbodied = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_sending_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _head_is_late(self) -> None:
        if self._head_begun:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.abort()

    def _refuse(self, status: HTTPStatus) -> None:
        """Ends the connection. A response that has begun is cut: nothing else can be said in it."""
        if self._is_idle():
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.transport.write(head.encode())
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        """A closed transport waits for the client to read what is left: not for ever."""
        self.loop.call_later(SEND_S, self.transport.abort)
