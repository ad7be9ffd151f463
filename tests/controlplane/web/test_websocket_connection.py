"""A WebSocket whose client reads nothing is ended, and its consumer with it."""

import asyncio

import pytest

from controlplane.asgi_types import Receive, Scope, Send
from controlplane.web import websocket_connection
from tests.controlplane.web.served import served

pytestmark = pytest.mark.any_database
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_connection, "SEND_S", 0.05)
    ended = asyncio.Event()

    async def floods(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "text": "x" * 1_000_000})
        finally:
            ended.set()

    async with served(floods) as address, address.client(UPGRADE) as client:
        assert (await client.head()).startswith("HTTP/1.1 101 ")
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(20):
            await ended.wait()


async def test_a_client_that_reads_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sends(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "x" * 1_000_000})
        await send({"type": "websocket.close", "code": 4408})

    async with served(sends) as address, address.client(UPGRADE) as client:
        assert (await client.head()).startswith("HTTP/1.1 101 ")
        async with asyncio.timeout(20):
            assert b"x" * 1_000_000 in await client.reader.readexactly(1_000_010)
