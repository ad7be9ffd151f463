"""Connections of the web process that never finish their head, send too much of it, or read nothing."""

import asyncio
from typing import Any

import pytest

from controlplane.web import http_connection
from controlplane.web.http_connection import HttpConnection
from controlplane.web.refusals import Receive, Scope, Send
from tests.controlplane.web.served import served

pytestmark = pytest.mark.any_database
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    size = 64 * 1024 * 1024 if scope["path"] == "/large" else 2
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.mark.parametrize(
    ("sent", "answer"),
    [(b"", ""), (HEAD, "HTTP/1.1 408 "), (b"\r\n\r\n", ""), (HEAD + b"X-A: ", "HTTP/1.1 408 ")],
)
async def test_a_head_that_is_never_finished_is_given_up(
    sent: bytes, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_S", 0.05)
    async with served(hello) as address:
        assert (await address.ask(sent))[:13] == answer[:13]


async def test_the_head_of_a_second_request_has_the_same_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where empty lines come first: uvicorn no longer counts such a connection as idle."""
    monkeypatch.setattr(http_connection, "HEAD_S", 0.05)
    async with served(hello) as address, address.client(HEAD + b"\r\n") as client:
        assert (await client.head()).startswith("HTTP/1.1 200 ")
        assert await client.reader.readexactly(2) == b"xx"
        client.writer.write(b"\r\n\r\n")
        assert await client.answer() == ""


async def test_a_head_within_its_time_is_answered_and_the_limit_ends_with_it() -> None:
    async with served(hello) as address, address.client(HEAD) as client:
        client.writer.write(b"\r\n")
        assert (await client.head()).startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("lines", [b"X-Long: ", b"GET /"])
async def test_a_head_that_is_too_large_is_refused(lines: bytes) -> None:
    start = b"" if lines.startswith(b"GET") else HEAD
    async with served(hello) as address, address.client(start + lines) as client:
        client.writer.write(b"y" * (http_connection.HEAD_BYTES + 1))
        assert (await client.answer()).startswith(("HTTP/1.1 431 ", "HTTP/1.1 400 "))


async def test_trailers_without_end_are_cut() -> None:
    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: "
    async with served(reads) as address, address.client(head) as client:
        client.writer.write(b"y" * (8 * http_connection.HEAD_BYTES))
        assert await client.answer() == ""


async def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "SEND_S", 0.05)
    lost = asyncio.Event()
    parent = HttpConnection.connection_lost

    def connection_lost(self: HttpConnection, exc: Exception | None) -> None:
        parent(self, exc)
        lost.set()

    monkeypatch.setattr(HttpConnection, "connection_lost", connection_lost)
    async with served(hello) as address, address.client() as client:
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await lost.wait()


async def test_of_too_many_connections_the_one_that_waits_longest_gives_way(monkeypatch: Any) -> None:
    monkeypatch.setattr(http_connection, "most_connections", lambda: 2)
    async with served(hello) as address, address.client(HEAD) as first, address.client(HEAD) as second:
        while len(HttpConnection.waiting) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with address.client(HEAD + b"\r\n") as third:
            assert (await third.head()).startswith("HTTP/1.1 200 ")
        assert await first.answer() == ""
        second.writer.write(b"\r\n")
        assert (await second.head()).startswith("HTTP/1.1 200 ")
