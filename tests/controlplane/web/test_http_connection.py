"""Connections of the web process that never finish their head, send too much of it, or read nothing."""

import asyncio
import random
import zlib
from contextlib import AsyncExitStack
from typing import Any

import pytest

from controlplane.asgi_types import Receive, Scope, Send
from controlplane.web import http_connection
from controlplane.web.http_connection import HttpConnection
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


class Gate:
    """An application that answers each request with its path and body, those of /held once it is open."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.begun: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["path"])
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if scope["path"] == "/held":
            await asyncio.wait(
                [asyncio.ensure_future(receive()), asyncio.ensure_future(self.opened.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
        answer = b"%s %d %d\n" % (scope["path"].encode(), len(body), zlib.crc32(body))
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each head that was begun to be parsed."""
    found: list[None] = []
    parent = HttpConnection.on_message_begin

    def on_message_begin(self: HttpConnection) -> None:
        found.append(None)
        parent(self)

    monkeypatch.setattr(HttpConnection, "on_message_begin", on_message_begin)
    return found


async def test_pipelined_requests_are_parsed_once_it_is_their_turn(heads: list[None]) -> None:
    """Before, all that one read brought was parsed while nobody else was served."""
    gate = Gate()
    sent = get("/held") + get("/x") * 1500
    async with served(gate) as address, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(address.client(sent)) for _ in range(5)]
        while len(gate.begun) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with address.client(get("/other")) as other:
            assert (await other.head()).startswith("HTTP/1.1 200 ")
        assert len(heads) == 6
        gate.opened.set()
        for client in clients:
            for path in ["/held", *["/x"] * 1500]:
                assert (await client.head()).startswith("HTTP/1.1 200 ")
                assert await client.reader.readline() == f"{path} 0 0\n".encode()


@pytest.mark.parametrize("seed", range(20))
async def test_pipelined_requests_are_answered_in_order_however_they_come(seed: int) -> None:
    rng = random.Random(seed)
    sent, expected = b"", b""
    for number in range(rng.randrange(2, 40)):
        body = rng.choice(
            [b"", b"\r\n\r\n" * 300, get("/smuggled") * 20, rng.randbytes(rng.randrange(20_000))]
        )
        path = rng.choice(["/held", f"/{number}"])
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n"
        if rng.random() < 0.5:
            sent += f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        else:
            sent += f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
            sent += b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            sent += b"0\r\n\r\n"
        expected += b"%s %d %d\n" % (path.encode(), len(body), zlib.crc32(body))
        if len(sent) > http_connection.PIPELINED_BYTES // 2:
            break
    gate = Gate()
    gate.opened.set()
    async with served(gate) as address, address.client() as client:
        at = 0
        while at < len(sent):
            size = rng.choice([1, 17, 300, 70_000, len(sent)])
            client.writer.write(sent[at : at + size])
            await asyncio.sleep(0)
            at += size
        answers = b""
        async with asyncio.timeout(20):
            while answers.count(b"\n") - answers.count(b"\r\n") < expected.count(b"\n"):
                answers += await client.reader.read(65_536)
    assert b"".join(part.partition(b"\r\n\r\n")[2] for part in answers.split(b"HTTP/1.1 200 ")) == expected


async def test_too_much_that_is_pipelined_ends_the_connection_after_the_answer() -> None:
    gate = Gate()
    async with served(gate) as address, address.client(get("/held")) as client:
        while not gate.begun:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        client.writer.write(get("/x") * 20_000)
        await asyncio.sleep(0.01)
        gate.opened.set()
        answer = await client.answer()
    assert answer.startswith("HTTP/1.1 200 ")
    assert "connection: close" in answer
    assert answer.endswith("/held 0 0\n")
    assert gate.begun == ["/held"]


async def test_empty_lines_before_a_request_are_ignored_in_turns() -> None:
    async with served(hello) as address, address.client() as client:
        client.writer.write(b"\r\n" * 30_000 + HEAD + b"\r\n")
        assert (await client.head()).startswith("HTTP/1.1 200 ")


async def test_what_follows_a_switch_to_another_protocol_is_no_request() -> None:
    gate = Gate()
    gate.opened.set()
    head = b"POST /h2 HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 4\r\n\r\nbody"
    async with served(gate) as address, address.client(head + get("/x") * 20) as client:
        assert (await client.head()).startswith("HTTP/1.1 200 ")
        await client.reader.readline()
        client.writer.write(get("/after"))
        assert (await client.head()).startswith("HTTP/1.1 200 ")
    assert gate.begun == ["/h2", "/after"]
