"""A client without an event loop's transport between it and its socket: what it sends is sent at once."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

from tests.routing.proxy.rig import Rig

LIMIT_S = 10.0


class RawClient:
    """Its ``send`` is done when it returns, and every error of the socket is told."""

    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket

    def send(self, data: bytes) -> None:
        assert self.socket.send(data) == len(data)

    async def received(self, count: int = 65_536) -> bytes:
        """The next bytes, at most so many; empty once the proxy has ended the connection in good order."""
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.get_running_loop().sock_recv(self.socket, count)

    @property
    def error(self) -> int:
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


class RawTlsClient(RawClient):
    """The same over TLS. A good order is a close_notify and then a FIN."""

    def __init__(self, socket: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(socket)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def shakes_hands(self) -> bool:
        """A step of the handshake, with what was heard; whether it was the last. More may be unsent."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def shake_hands(self) -> None:
        while not self.shakes_hands():
            super().send(self.unsent())
            await self.hear()
        super().send(self.unsent())

    async def hear(self, count: int = 65_536) -> None:
        encrypted = await super().received(count)
        assert encrypted, "the connection ended without a close_notify"
        self._incoming.write(encrypted)

    def unsent(self) -> bytes:
        """What TLS has made and nobody has sent yet."""
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        super().send(self.encrypted(data))

    def encrypted(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.unsent()

    def say_goodbye(self) -> None:
        """A close_notify, and the socket stays open."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        super().send(self.unsent())

    async def received(self, count: int = 65_536) -> bytes:
        while True:
            try:
                said = self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                await self.hear(count)
            else:
                if not said:
                    assert await super().received() == b"", "something came after the close_notify"
                return said


@contextlib.asynccontextmanager
async def raw_client(rig: Rig, receive_buffer: int = 0) -> AsyncIterator[RawClient]:
    """Of a proxy that speaks TLS, one that has shaken hands."""
    with socket.socket() as connection:
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", rig.port))
        if rig.tls is None:
            yield RawClient(connection)
        else:
            client = RawTlsClient(connection, rig.tls.client)
            await client.shake_hands()
            yield client
