"""An ASGI application behind the web process's own HTTP connections, in the loop of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.server import ServerState

from controlplane.web.http_connection import HttpConnection
from controlplane.web.websocket_connection import WebSocketConnection

PATIENCE_S = 20.0


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> str:
        """Everything until the connection ends. One that is reset ends too."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return (await self.reader.read()).decode()
            except ConnectionResetError:
                return ""

    async def head(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return (await self.reader.readuntil(b"\r\n\r\n")).decode()


class Address(NamedTuple):
    port: int

    @asynccontextmanager
    async def client(self, sent: bytes = b"") -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, sent: bytes) -> str:
        async with self.client(sent) as client:
            return await client.answer()


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[Address]:
    config = Config(
        application,
        http=HttpConnection,
        ws=WebSocketConnection,
        lifespan="off",
        log_config=None,
        access_log=False,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpConnection(config, state, {}), "127.0.0.1", 0)
    try:
        yield Address(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()  # type: ignore[union-attr]
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=PATIENCE_S)
