"""A replica that answers as recorded: ``python -m tests.benchmarks.recorded_replica KIND PORT…``.

To a chat request it sends a whole answer, or a stream of 50 tokens, 20 ms apart; to anything else an empty
200, for whoever asks for its health. What is to be sent is made ahead, once a second, and each write is a
system call of its own, as it is at the server that was recorded.
"""

import asyncio
import os
import sys
import time
from itertools import cycle

import uvloop

from tests.benchmarks.recorded import CLOSES, KEEPS, KEPT_FOR, Answers, request_body

BODY_BYTES = 500
BODY, STREAM_BODY = request_body(BODY_BYTES), request_body(BODY_BYTES, stream=True)
TOKENS, EVERY_S = 50, 0.02
WHOLE, STREAMS = 509, 16
"""Different answers of each second."""
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Supply:
    """What connections send next."""

    def __init__(self, kind: str) -> None:
        self.answers = Answers(kind)
        self.kept_for = KEPT_FOR.get(kind, 0)
        self.renew()

    def renew(self) -> None:
        now = time.time()
        whole = [self.answers.whole(now) for _ in range(WHOLE)]
        if self.answers.kind != "vllm":
            whole = [(head + body, b"") for head, body in whole]
        self.next_whole = cycle(whole).__next__
        self.next_stream = cycle([self.answers.stream(now, TOKENS) for _ in range(STREAMS)]).__next__
        asyncio.get_running_loop().call_later(1.0 - now % 1.0, self.renew)


class Replica(asyncio.Protocol):
    """One connection; requests on it come one after another."""

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self.data = b""
        self.left = supply.kept_for

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        if self.data:
            data = self.data + data
            self.data = b""
        if data.endswith(BODY):
            self.answer()
        elif data.endswith(STREAM_BODY):
            self.stream()
        elif not data.startswith(b"POST"):
            self.write(OK)
        elif not is_whole(data):
            self.data = data
        elif data.replace(b" ", b"").find(b'"stream":true') >= 0:
            self.stream()  # a router that writes bodies anew
        else:
            self.answer()

    def answer(self) -> None:
        head, body = self.supply.next_whole()
        self.left -= 1
        if not self.left:
            head = head.replace(KEEPS, CLOSES)
        self.write(head)
        if body:
            self.write(body)
        if not self.left:
            self.transport.close()

    def stream(self) -> None:
        self.segments = self.supply.next_stream()
        self.sent = 0
        self.due = asyncio.get_running_loop().time()
        self.send()

    def write(self, data: bytes) -> None:
        """At once: what a transport is given in one turn of the loop, it writes by one call."""
        if os.write(self.descriptor, data) != len(data):
            sys.exit("a peer reads so slowly that its buffer is full")

    def send(self) -> None:
        if self.transport.is_closing():
            return
        for segment in self.segments[self.sent]:
            self.write(segment)
        self.sent += 1
        if self.sent < len(self.segments):
            self.due += EVERY_S
            asyncio.get_running_loop().call_at(self.due, self.send)


def is_whole(request: bytes) -> bool:
    head, end, body = request.partition(b"\r\n\r\n")
    length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return bool(end) and len(body) >= int(length or 0)


async def serve(kind: str, ports: list[int]) -> None:
    loop, supply = asyncio.get_running_loop(), Supply(kind)
    servers = [
        await loop.create_server(lambda: Replica(supply), "127.0.0.1", port, backlog=1024) for port in ports
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], [int(port) for port in sys.argv[2:]]))
