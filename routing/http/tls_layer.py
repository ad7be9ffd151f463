"""TLS termination: the layer between a client's socket and its connection, with TLS on the socket's side.

Theory. To the connection above, the layer behaves like the event loop's own transport, so that nothing above
knows of TLS:

============== ============================ ============================================================
state          told apart by                bytes that arrive are
============== ============================ ============================================================
shaking hands  not _connected, no _lingering the client's part of the handshake
refused        _lingering                   dropped: why was said, the client may still be sending
open           _decrypt                     records, decrypted at once and given on as one piece
half-closed    _encrypt, no _decrypt        dropped: the client has said that nothing more comes
ended          _connected, no _encrypt      given on as they are, for the connection above to drop
============== ============================ ============================================================

Writes are encrypted and given to the socket's transport at once, and reads are decrypted at once: the layer
buffers nothing. So flow control, the write buffer's size, and a paused socket's disconnect watcher are those
of the socket's transport. ``close_notify`` goes before a FIN, as RFC 8446 §6.1 asks. A received one is
treated like a FIN (unlike a FIN it cannot be seen behind unread bytes).

uvloop has such a layer too. But it buffers half a megabyte of its own, does not say how much its socket has
still to send, and cannot half-close. It does not report a client's disconnect while something waits to be
written, and sends nothing to a client whose handshake fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from routing.http.abort import abort_transport
from routing.http.errors import RequestRefused
from routing.http.handshake import Handshake, HandshakeHost
from routing.http.interfaces import Connection
from routing.http.limits import ConnectionLimits
from routing.http.lingering_close import LingeringClose
from routing.http.peer_address import peer_address

log = logging.getLogger(__name__)

_RECORD = 16_384
"""Most bytes that one record holds (RFC 8446 §5.1): a read that asks for so many leaves none of it behind."""
_PLAIN_HTTP = re.compile(rb"[A-Z]{3,16} [/*h]")
"""How a request begins; a handshake begins with the byte 22."""


class TlsHost(HandshakeHost, Protocol):
    """What the layer needs of the acceptor. Crosses a layer: the proxy is one."""

    limits: ConnectionLimits

    def on_tls_accept(self, connection: Connection, address: str) -> None:
        """A handshake is to come, from this address."""

    def refusal(self, error: RequestRefused, head_only: bool) -> bytes:
        """The whole answer to what is no request."""
        ...


class TlsLayer(Handshake, asyncio.Transport, asyncio.Protocol):
    """The TLS layer of one connection. See the module's text for its states."""

    __slots__ = (
        "_above",
        "_address",
        "_connected",
        "_decrypt",
        "_encrypt",
        "_host",
        "_incoming",
        "_lingering",
        "_object",
        "_outgoing",
        "_since",
        "_socket",
        "deadline",
    )

    _host: TlsHost

    def __init__(
        self, context: ssl.SSLContext, above: asyncio.Protocol, host: TlsHost, address: str = ""
    ) -> None:
        """``address``: the client's, where it is not who has connected."""
        self._host = host
        self._address = address
        self._above = above
        self._socket = None  # type: ignore[assignment]
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._decrypt: Callable[[int], bytes] | None = None
        self._encrypt: Callable[[bytes | bytearray | memoryview], int] | None = None
        self._connected = False
        """Whether the connection above knows of this one."""
        self._lingering: LingeringClose | None = None
        self.deadline = self._since = 0.0

    # A protocol, called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]
        self._since = monotonic()
        self._host.sweeper.add(self)
        self._host.on_tls_accept(self, self._address or peer_address(transport))

    def data_received(self, data: bytes) -> None:
        if self._decrypt is not None:
            self._incoming.write(data)
            self._read()
        elif self._connected:
            if self._encrypt is None:
                self._above.data_received(data)
        elif self._lingering is None:
            self._shake_hands(data)
        elif self._lingering.drop(data):
            self._socket.abort()

    def eof_received(self) -> bool:
        if self._decrypt is None and self._encrypt is not None:
            # After a close_notify, which the connection above has taken for the same.
            return True
        return self._connected and bool(self._above.eof_received())

    def pause_writing(self) -> None:
        if self._connected:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._connected:
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._host.on_layer_close(self)
        self._decrypt = self._encrypt = None
        connected, self._connected = self._connected, False
        if connected:
            self._above.connection_lost(exc)
        # The largest part of a connection is freed now, and not when the collector comes round.
        self._above = self._object = self._incoming = self._outgoing = None  # type: ignore[assignment]

    # Called by the sweeper, until the handshake is done.

    def check(self, now: float) -> None:
        if self._lingering is None:
            super().check(now)
        elif self._lingering.is_over(now):
            abort_transport(self._socket)

    # Called by the host, until the handshake is done.

    @property
    def idle_since(self) -> float | None:
        return None if self._connected or self._lingering is not None else super().idle_since

    # A transport, called by the connection above.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        encrypt = self._encrypt
        if encrypt is None or not data:
            return
        try:
            # All of it, in as many records as it takes: what OpenSSL writes to is memory.
            encrypt(data)
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._socket.write(self._outgoing.read())

    def write_eof(self) -> None:
        self._say_goodbye()
        self._socket.write_eof()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self._say_goodbye()
        self._socket.close()

    def abort(self) -> None:
        self._decrypt = self._encrypt = None
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._object if name == "ssl_object" else self._socket.get_extra_info(name, default)

    # The handshake.

    def _shake_hands(self, data: bytes) -> None:
        self._host.handshakes.add(self)
        self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._host.on_half_head(self, len(data))
            self._flush()
            return
        except ssl.SSLError as error:
            self._refuse(error, data)
            return
        self._leave()
        self._host.on_handshake_done(self)
        self._flush()
        self._decrypt, self._encrypt = self._object.read, self._object.write
        self._connected = True
        self._above.connection_made(self)
        if self._decrypt is not None:  # else it was turned away
            self._read()

    def _refuse(self, error: ssl.SSLError, data: bytes) -> None:
        """No handshake comes about. The client hears why: an alert, or an answer that it can read."""
        log.debug("no TLS handshake with %s: %s", self.get_extra_info("peername"), error.reason)
        self._host.handshakes.discard(self)
        if _PLAIN_HTTP.match(data):
            words = "this port speaks HTTPS: write https:// in the URL"
            self._socket.write(self._host.refusal(RequestRefused(400, "https_only", words), False))
        else:
            self._flush()
        self._lingering = LingeringClose(self._socket, self._host.limits, monotonic(), answered=True)
        self._socket.write_eof()

    # Records.

    def _read(self) -> None:
        """Give on all that can be decrypted, as one piece."""
        decrypt, incoming = self._decrypt, self._incoming
        assert decrypt is not None
        pieces: list[bytes] = []
        failure: ssl.SSLError | None = None
        over = False
        try:
            while True:
                piece = decrypt(_RECORD)
                if not piece:
                    over = True
                    break
                pieces.append(piece)
                if not incoming.pending:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            failure = error
        if self._outgoing.pending:
            # What TLS itself has to say: an alert, or an answer to a client that changes its keys.
            self._flush()
        if pieces:
            self._above.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if failure is not None:
            self._fail(failure)
        elif over and self._decrypt is not None:
            self._decrypt = None
            if not self._above.eof_received() and not self.is_closing():
                self.close()

    def _flush(self) -> None:
        self._socket.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        """What came is no record, or cannot be trusted. An alert has been sent."""
        log.debug("the TLS connection of %s is cut: %s", self.get_extra_info("peername"), error.reason)
        self.abort()

    def _say_goodbye(self) -> None:
        """Nothing more is written: close_notify."""
        if self._encrypt is not None:
            self._decrypt = self._encrypt = None
            # It sends ours and then looks for the client's, which has the time to come or not.
            with contextlib.suppress(ssl.SSLError):
                self._object.unwrap()
            self._flush()
