"""Acceptor: takes clients' connections off a listener, also when no file descriptor is left (EMFILE).

Theory. uvloop serves the listener as long as connections can be accepted. Without a free descriptor libuv
reports nothing: it closes each waiting connection without a response, by a spare descriptor of its own. Once
that is lost too, its loop spins. So when :meth:`Acceptor.on_exhaustion` is called because descriptors are
used up, the listener is removed from uvloop. Until there are descriptors again, each connection gets its
response here: a spare descriptor is closed, which makes room for one connection, and opened again after it.
If even that does not help, connections wait, and the loop sleeps, until the next call.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

BACKLOG = 4096
"""Connections waiting to be accepted; the kernel limits it to ``net.core.somaxconn``."""
ACCEPTS_PER_TURN = 64
"""Connections refused in one iteration of the event loop."""
_READ_BYTES = 65_536


class Acceptor:
    """The acceptor of one worker. ``answer`` gives the response for a connection that cannot be served;
    ``refused`` is called for each of those."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        answer: Callable[[], bytes],
        refused: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._protocol = protocol
        self._answer = answer
        self._refused = refused
        self._server: asyncio.AbstractServer | None = None
        self._spare = -1
        self._open = False
        self._watching = False

    async def open(self) -> None:
        """Begin to accept connections."""
        self._open_spare()
        await self._serve()
        self._open = True

    async def close(self, followed: bool = False) -> None:
        """Accept no more. ``followed``: another process accepts the connections that wait. Otherwise they are
        accepted here first, because closing the listener would reset them."""
        self._open = False
        self._detach()
        self._close_spare()
        while not followed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                await self._loop.connect_accepted_socket(self._protocol, connection)
        self._listener.close()

    async def on_exhaustion(self, exhausted: bool) -> None:
        """Called several times a second: whether file descriptors are used up."""
        if not self._open:
            return
        if not exhausted:
            self._open_spare()
            if self._server is None:
                self._detach()
                # Descriptors may be used up again; then the next call retries.
                with contextlib.suppress(OSError):
                    await self._serve()
            return
        if self._server is not None:
            self._detach()
        if not self._watching:
            self._watching = True
            self._loop.add_reader(self._listener, self._refuse_waiting)

    async def _serve(self) -> None:
        duplicate = self._listener.dup()
        try:
            self._server = await self._loop.create_server(self._protocol, sock=duplicate, backlog=BACKLOG)
        except OSError:
            duplicate.close()
            raise

    def _detach(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._watching:
            self._loop.remove_reader(self._listener)
            self._watching = False

    def _refuse_waiting(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            self._close_spare()
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                break
            except OSError:
                # Something else has taken the spare descriptor, or one was not enough.
                self._detach()
                break
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(self._answer())
                connection.shutdown(socket.SHUT_WR)
                # With unread bytes the close would be a reset, which may destroy the response.
                connection.recv(_READ_BYTES)
            self._refused()
        self._open_spare()

    def _open_spare(self) -> None:
        if self._spare < 0:
            with contextlib.suppress(OSError):
                self._spare = os.dup(self._listener.fileno())

    def _close_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
