"""The clients of the fault bench: so many requests a second of four kinds, and what became of each."""

import asyncio
import itertools
import json
import select
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

KINDS = ("get", "safe", "unsafe", "stream")
"""In turn: GET, a POST that may be sent twice, one that may not, and a stream (which may)."""
LONG = "long"
"""A stream of ten seconds."""
STREAMED = ("stream", LONG)
STREAM_S = 10.0
LIMIT_S = 40.0
PAUSE_S = 0.1
"""After a failure, before a client that goes on without a pause asks again."""
HELD_S = 1.0
"""Clients that were held themselves for longer do not make up for it: that would be a flood."""
ANSWER = b'"content": "x'
_BODY = b'{"model": "echo", "messages": []}'
_STREAMED = b'{"model": "echo", "messages": [], "stream": true}'
_LINES = {
    "get": b"GET /fleets/echo/thing",
    "safe": b"POST /fleets/echo/v1/chat/completions",
    "unsafe": b"POST /fleets/echo/work",
    "stream": b"POST /fleets/echo/v1/chat/completions",
    LONG: b"POST /fleets/echo/v1/chat/completions",
}
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Result:
    """One request as its client saw it."""

    id: str
    kind: str
    began: float
    took_s: float = 0.0
    status: int = 0
    begun: bool = False
    """Whether a byte of a replica's response has come: after that nobody may send it again."""
    whole: bool = False
    replica: str = ""
    answers: bool = False
    """Whether the body is the model server's answer."""
    cause: str = ""

    @property
    def ended(self) -> float:
        return self.began + self.took_s

    @property
    def ok(self) -> bool:
        return self.whole and self.status == 200


class Load:
    """Clients of one proxy. ``async with`` runs them; afterwards :attr:`results` has all.

    ``streams``: beside these so many streams of ten seconds, each followed by the next.
    """

    def __init__(
        self,
        port: int,
        rate: float,
        kinds: tuple[str, ...] = KINDS,
        *,
        fields: bytes = b"",
        streams: int = 0,
    ) -> None:
        """``rate``: requests a second. ``fields``: more header fields, each with its CRLF."""
        self.results: list[Result] = []
        self.held_s = 0.0
        """Seconds without requests, because this process had no CPU."""
        self._fields = fields
        self._streams = streams
        self._numbers = itertools.count(1)
        self._port = port
        self._every_s = 1 / rate
        self._kinds: Iterator[str] = itertools.cycle(kinds)
        self._idle: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def __aenter__(self) -> "Load":
        self._runner = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._runner
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=LIMIT_S)
        for _, writer in self._idle:
            writer.close()

    async def _run(self) -> None:
        for place in range(self._streams):
            self._spawn(self._stream_again_and_again(STREAM_S * place / self._streams))
        due = time.monotonic()
        while not self._over.is_set():
            if (held_s := time.monotonic() - due) > HELD_S:
                self.held_s += held_s
                due += held_s
            while due <= time.monotonic():
                self._spawn(self._ask(next(self._kinds)))
                due += self._every_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stream_again_and_again(self, begin_after_s: float) -> None:
        """They begin one after the other, so that at any moment some have just begun and some are to end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), begin_after_s)
        while not self._over.is_set():
            await self._ask(LONG)

    def begin(self, result: Result) -> None:
        """Called as a request begins."""
        self.results.append(result)

    def end(self, result: Result) -> None:
        """Called when it is known what became of it."""

    async def _ask(self, kind: str) -> None:
        result = Result(f"{kind}-{next(self._numbers)}", kind, time.monotonic())
        self.begin(result)
        writer = None
        try:
            async with asyncio.timeout(LIMIT_S):
                reader, writer = self._pooled() or await self._open()
                writer.write(request_of(result, self._fields))
                if await read_response(reader, result):
                    self._idle.append((reader, writer))
                    writer = None
        except TimeoutError:
            result.cause = f"no end within {LIMIT_S:g} s"
        except (OSError, asyncio.IncompleteReadError) as problem:
            result.cause = f"cut off: {type(problem).__name__}"
        if writer is not None:
            writer.close()
        result.took_s = time.monotonic() - result.began
        self.end(result)
        if result.cause:
            await asyncio.sleep(PAUSE_S)

    def _pooled(self) -> Connection | None:
        """An idle connection that is still open as far as a client can know."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not has_input(writer):
                return reader, writer
            writer.close()
        return None

    async def _open(self) -> Connection:
        return await asyncio.open_connection("127.0.0.1", self._port)


def has_input(writer: asyncio.StreamWriter) -> bool:
    """Whether the kernel has something for us, or the end, that the loop has not got to yet."""
    poll = select.poll()
    number = writer.get_extra_info("socket").fileno()
    if number < 0:
        return True
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def request_of(result: Result, fields: bytes = b"") -> bytes:
    body = b"" if result.kind == "get" else _STREAMED if result.kind in STREAMED else _BODY
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    ours = f"X-Fault-Id: {result.id}\r\nX-Fault-Kind: {result.kind}\r\n".encode()
    return _LINES[result.kind] + b" HTTP/1.1\r\nHost: a.test\r\n" + ours + fields + length + b"\r\n" + body


async def read_response(reader: asyncio.StreamReader, result: Result) -> bool:
    """Note what comes; returns whether the connection can be used again."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    result.status = int(head.split(" ")[1])
    result.begun = "x-switchyard-replica:" in head
    body = b""
    if "transfer-encoding: chunked" in head:
        while size := int((await reader.readuntil(b"\r\n"))[:-2], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        body = await reader.readexactly(int(length))
    result.replica = head.partition("x-switchyard-replica: ")[2].partition("\r\n")[0]
    result.whole, result.answers = True, ANSWER in body
    if result.status != 200:
        result.cause = f"{result.status} {error_code(body)}".strip()
    return "connection: close" not in head


def error_code(body: bytes) -> str:
    """The proxy's own code for an error; of a replica's error its text."""
    with suppress(ValueError):
        said = json.loads(body)
        error = said.get("error", said)
        return str(error.get("code", "")) if isinstance(error, dict) else str(error)
    return f"by the replica: {body[:20]!r}"
