"""The admin listener is handed over: whoever has connected by then is served, by either master."""

import asyncio
import contextlib
import socket
from typing import cast

import pytest

from routing.master.admin.admin_server import AdminServer, ProxyControl


def connected(address: tuple[str, int]) -> socket.socket:
    client = socket.create_connection(address)
    client.setblocking(False)
    client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_from_the_last_moment_is_served_or_left_to_the_successor(turns: int) -> None:
    """``turns``: of the event loop, between the connection and the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    inherited = listener.dup()
    inherited.setblocking(False)
    # /livez needs nothing of the proxy.
    server = AdminServer(cast(ProxyControl, None), listener)
    await server.start()
    loop = asyncio.get_running_loop()
    with contextlib.closing(inherited), contextlib.closing(connected(inherited.getsockname())) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.finish()
        with contextlib.suppress(BlockingIOError):
            inherited.accept()[0].close()
            return
        async with asyncio.timeout(5):
            assert (await loop.sock_recv(client, 64)).startswith(b"HTTP/1.1 200")
    await server.finish()
