"""Handshake: what stands before a connection's requests, a PROXY protocol header or the beginning of TLS.

To the acceptor it is a connection like others (:class:`routing.http.interfaces.Connection`), of which nothing
is in flight: it may be closed at any time, and then sends no response, which the client could not read yet.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from routing.http.abort import abort_transport
from routing.http.interfaces import Connection
from routing.http.timeout_sweeper import TimeoutSweeper


class HandshakeHost(Protocol):
    """What a handshake needs of the acceptor. Crosses a layer: the proxy is one."""

    sweeper: TimeoutSweeper
    handshakes: set[object]
    """Those under way whose client has said something."""

    @property
    def head_timeout_s(self) -> float:
        """How long one may take."""
        ...

    def on_half_head(self, client: Connection, size: int) -> None:
        """``size`` more bytes of one have come, which is not complete."""

    def on_handshake_done(self, connection: Connection) -> None:
        """It is done; what follows on it comes next."""

    def on_layer_close(self, connection: Connection) -> None:
        """It is closed. Also after :meth:`on_handshake_done`."""


class Handshake:
    """A layer below one connection, until its handshake is done."""

    __slots__ = ()

    deadline: float
    _host: HandshakeHost
    _since: float
    _socket: asyncio.Transport
    """The loop's transport."""

    # Called by the sweeper.

    def check(self, now: float) -> None:
        if now - self._since > self._host.head_timeout_s:
            abort_transport(self._socket)

    # Called by the host.

    @property
    def idle_since(self) -> float | None:
        """``None``: the client has said something."""
        return None if self in self._host.handshakes else self._since

    @property
    def silent_since(self) -> float | None:
        return self.idle_since

    @property
    def descriptor(self) -> int:
        number: int = self._socket.get_extra_info("socket").fileno()
        return number

    @property
    def slow_since(self) -> float | None:
        return None

    def give_way(self, answer: bytes) -> None:
        self.abort()

    def reject(self, answer: bytes) -> bool:
        """The connection above is turned away, which knows in which form, and when the client can read it."""
        return False

    def close_if_idle(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    # Called by the layer.

    def _leave(self) -> None:
        """It is done, or closed."""
        self._host.sweeper.discard(self)
        self._host.handshakes.discard(self)
