"""Sixteen model servers of unequal speed in one process, none of which computes anything.

    python -m tests.benchmarks.routing.replicas slots|batches PORT …

``slots``: four requests at a time, each sleeping for its seconds ÷ speed; more wait in order of arrival.
``batches``: streams; every iteration gives each running request a token, and takes longer the more of them
there are, as on a GPU that batches. What a request costs is said in its prompt, which no proxy understands.
``POST /slow?replica=15&times=3`` on the first port slows one of them down.
"""

import asyncio
import re
import sys
from collections import deque
from collections.abc import Callable

import uvloop

from tests.benchmarks.routing.trace import BATCH, FIXED_S, PER_REQUEST_S, SLOTS, SPEEDS

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_SECONDS = re.compile(rb"seconds ([0-9.]+)")
_TOKENS = re.compile(rb"tokens ([0-9]+)")
_SLOW = re.compile(rb"^POST /slow\?replica=([0-9]+)&times=([0-9.]+) ")
_ANSWER = b'{"object":"text_completion","choices":[{"index":0,"text":"ok"}]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_ANSWER),
    _ANSWER,
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


EVENT = _chunk(b'data: {"object":"text_completion","choices":[{"index":0,"text":" ok"}]}\n\n')
DONE = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Client(asyncio.Protocol):
    """One connection from a proxy."""

    def __init__(self, serve: Callable[["Client", bytes], None]) -> None:
        self.serve = serve
        self.held = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, end, rest = self.held.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if len(rest) >= size:
            self.held = rest[size:]
            self.serve(self, head + rest[:size])

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)


class Slots:
    """So many requests at a time, the others in order of arrival."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.free = SLOTS
        self.waiting: deque[tuple[Client, float]] = deque()

    def serve(self, client: Client, request: bytes) -> None:
        said = _SECONDS.search(request)
        seconds = float(said[1]) if said else 0.0
        if not said:
            client.write(ANSWER)
        elif self.free:
            self.free -= 1
            self._work(client, seconds)
        else:
            self.waiting.append((client, seconds))

    def _work(self, client: Client, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds / self.speed, self._done, client)

    def _done(self, client: Client) -> None:
        client.write(ANSWER)
        if self.waiting:
            self._work(*self.waiting.popleft())
        else:
            self.free += 1


class Batches:
    """Iterations, each of which gives every running request one token."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.running: dict[Client, int] = {}
        self.waiting: deque[tuple[Client, int]] = deque()
        self.turning = False

    def serve(self, client: Client, request: bytes) -> None:
        said = _TOKENS.search(request)
        if not said:
            client.write(ANSWER)
            return
        self.waiting.append((client, int(said[1])))
        if not self.turning:
            self.turning = True
            self._turn()

    def _turn(self) -> None:
        while self.waiting and len(self.running) < BATCH:
            client, tokens = self.waiting.popleft()
            client.write(STREAM)
            self.running[client] = tokens
        if not self.running:
            self.turning = False
            return
        took = (FIXED_S + PER_REQUEST_S * len(self.running)) / self.speed
        asyncio.get_running_loop().call_later(took, self._ended)

    def _ended(self) -> None:
        for client, left in list(self.running.items()):
            if client.transport.is_closing():
                del self.running[client]
            elif left > 1:
                client.write(EVENT)
                self.running[client] = left - 1
            else:
                client.write(EVENT + DONE)
                del self.running[client]
        self._turn()


async def _main(kind: str, ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    make = Slots if kind == "slots" else Batches
    replicas = [make(float(speed)) for speed in SPEEDS]

    def first(client: Client, request: bytes) -> None:
        """The first replica, which is told of changes as well."""
        slow = _SLOW.match(request)
        if slow is None:
            replicas[0].serve(client, request)
        else:
            number = int(slow[1])
            replicas[number].speed = SPEEDS[number] / float(slow[2])
            client.write(ANSWER)

    for port, replica in zip(ports, replicas, strict=True):
        serve = first if replica is replicas[0] else replica.serve
        await loop.create_server(lambda serve=serve: Client(serve), "127.0.0.1", port, backlog=1024)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], [int(port) for port in sys.argv[2:]]))
