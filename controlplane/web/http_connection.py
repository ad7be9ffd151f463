"""Slow loris protection: time and size limits of a connection of the web process, in uvicorn's HTTP protocol.

uvicorn waits for ever for a request head that is never finished, keeps as much of one as is sent, and lets
a client that reads nothing hold its connection. Here are limits, for
``uvicorn --http controlplane.web.http_connection:HttpConnection``; those of bodies: ``request_limits.py``.
"""

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_S = 10.0
"""A request head is complete within this many seconds, of the connection's begin or the head's first byte."""
HEAD_BYTES = 64 * 1024
"""Of a head; also of chunk extensions and trailers between two pieces of a body."""
SEND_S = 60.0
"""A client that takes nothing for so long is disconnected."""
MOST_CONNECTIONS = 2000


def most_connections() -> int:
    """Half of the process's file descriptors: the others are for WebSockets, the database and Redis."""
    return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > most_connections():
            next(iter(self.waiting)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_sending_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unbodied += len(data)
        super().data_received(data)
        if self not in self.connections or self.transport.is_closing():
            return  # it is a WebSocket from now on, or ends
        if self._unbodied > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._head_timer is None and self._is_idle():
            self._wait_for_head()  # also after empty lines, which end uvicorn's own limit of idle connections

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
