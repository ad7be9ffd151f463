"""Real HTTP servers that behave as model servers do: well, badly, slowly, or not at all."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Self

from tests.ports import free_port

Answer = Callable[["HttpServer", bytes, asyncio.StreamWriter], Awaitable[None]]
"""Gets the request head, writes what it likes."""


class HttpServer:
    """One server in a thread of its own. ``answer`` may be changed at any time."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.tls = tls
        self.requests: list[bytes] = []
        """Request heads, in order of arrival."""
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.waiting = 0
        self.most_waiting = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listening = threading.Event()
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, backlog=256, ssl=self.tls
        )
        self._listening.set()
        await self._stop.wait()
        server.close()
        # All of them: a handshake that its client gave up is in none of ours.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stop.is_set():
            # Its TLS handshake has ended when nobody waits for tasks any more.
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head)
            answering = asyncio.ensure_future(self.answer(self, head, writer))
            leaving = asyncio.ensure_future(reader.read())
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:  # also when cancelled: a task left behind is told of in the log of a later test
                for each in (answering, leaving):
                    each.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # cancelled: asyncio's streams would log that as an error of their own
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.transport.abort() if self.answer is reset else writer.close()


def says(status: int, body: bytes = b"", *, path: str | None = None, header: bytes = b"") -> Answer:
    """Answers at once; on ``path`` only, else 404."""

    async def answer(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        fits = path is None or head.split(b" ")[1] == path.encode()
        code, content = (status, body) if fits else (404, b"")
        writer.write(b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n" % (code, header, len(content)))
        writer.write(content)
        await writer.drain()

    return answer


ready = says(200, b'{"status":"ok"}')
loading = says(503, b'{"error":{"message":"Loading model"}}')


async def hang(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await asyncio.sleep(3600)


async def reset(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    """Drops the connection without a word."""


async def endless(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    """200, and then a body without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 16384)
        await writer.drain()


async def drip(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    """200, and then a byte now and then."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


def slowly(seconds: float) -> Answer:
    """Ready, after a while. Counts who waits: a client has its answer only when it is counted no more."""

    async def answer(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        server.waiting += 1
        server.most_waiting = max(server.most_waiting, server.waiting)
        await asyncio.sleep(seconds)
        server.waiting -= 1
        await ready(server, head, writer)

    return answer
