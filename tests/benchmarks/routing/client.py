"""An open-loop client: every request is sent at its time, whether or not those before were answered.

What is measured counts from the moment a request was due, so that it is seen when a client or a proxy falls
behind.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import uvloop

from tests.benchmarks.routing.trace import Job

PATH = "/v1/completions"
LIMIT_S = 60.0
"""How long after the last request was due an answer is waited for."""


@dataclass(slots=True)
class Seen:
    """What became of one request. All in seconds from when it was due."""

    status: int = 0
    """0: the connection was lost, or nothing came in time."""
    took_s: float = float("inf")
    first_s: float = float("inf")
    tokens: int = 0

    @property
    def ended_well(self) -> bool:
        return self.status == 200 and self.took_s < float("inf")

    @property
    def per_token_s(self) -> float:
        """Between its tokens, the first one left out."""
        return (self.took_s - self.first_s) / max(1, self.tokens - 1)


class _Left:
    """How many requests have not ended."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.none = asyncio.Event()

    def ended(self) -> None:
        self.count -= 1
        if not self.count:
            self.none.set()


@dataclass(slots=True, eq=False)
class _Connection(asyncio.Protocol):
    idle: list["_Connection"]
    left: "_Left"
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport = field(init=False)
    due: float = 0.0
    seen: Seen | None = None
    held: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def ask(self, sent: bytes, due: float, seen: Seen) -> None:
        self.due, self.seen, self.held = due, seen, b""
        self.transport.write(sent)

    def data_received(self, data: bytes) -> None:
        seen = self.seen
        if seen is None:
            return
        now = self.loop.time() - self.due
        if seen.status:
            self.held = self.held[-64:] + data
        else:
            self.held += data
            head, end, rest = self.held.partition(b"\r\n\r\n")
            if not end:
                return
            seen.status = int(head[9:12])
            self.held = data = rest
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            if length:
                self.idle_after(seen, now)
                return
        count = data.count(b"choices")
        if count and not seen.tokens:
            seen.first_s = now
        seen.tokens += count
        if self.held.endswith(b"0\r\n\r\n"):
            self.idle_after(seen, now)

    def idle_after(self, seen: Seen, now: float) -> None:
        """Answers with a length are small: they come whole."""
        seen.took_s = now
        seen.first_s = min(seen.first_s, now)
        self.left.ended()
        self.seen = None
        self.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.seen is not None:
            self.left.ended()
        self.seen = None
        if self in self.idle:
            self.idle.remove(self)


def request(job: Job, key: str) -> bytes:
    """As a client of the OpenAI API sends it. What it costs is in its prompt, for the replica alone."""
    stream = ',"stream":true' if job.tokens else ""
    cost = f"tokens {job.tokens:08}" if job.tokens else f"seconds {job.seconds:08.4f}"
    body = f'{{"model":"m","prompt":"{cost}","max_tokens":{job.told}{stream}}}'
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


async def _send(port: int, key: str, jobs: list[Job]) -> list[Seen]:
    loop = asyncio.get_running_loop()
    idle: list[_Connection] = []
    found = [Seen() for _ in jobs]
    left = _Left(len(jobs))
    opening: set[asyncio.Task[None]] = set()
    began = loop.time() + 0.2

    async def on_a_new_one(sent: bytes, due: float, seen: Seen) -> None:
        _, made = await loop.create_connection(lambda: _Connection(idle, left, loop), "127.0.0.1", port)
        made.ask(sent, due, seen)

    for job, seen in zip(jobs, found, strict=True):
        due = began + job.at_s
        wait = due - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        sent = request(job, key)
        if idle:
            idle.pop().ask(sent, due, seen)
        else:
            task = loop.create_task(on_a_new_one(sent, due, seen))
            opening.add(task)
            task.add_done_callback(opening.discard)
    with suppress(TimeoutError):
        await asyncio.wait_for(left.none.wait(), LIMIT_S)
    return found


def send(port: int, key: str, jobs: list[Job]) -> list[Seen]:
    """What became of each, in the trace's order."""
    return uvloop.run(_send(port, key, jobs))
