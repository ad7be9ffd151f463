"""A replica that streams: ``python -m tests.benchmarks.peers.stream_replica PORT…``.

Each POST is answered with 50 server-sent events, 20 ms apart, as a model server streams tokens; anything else
with an empty 200, for whoever asks for its health. A raw protocol, so that a hundred streams fit beside a
proxy on a small machine.
"""

import asyncio
import sys

import uvloop

TOKENS, EVERY_S = 50, 0.02
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
EVENT = (
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}\n\n'
)
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Stream(asyncio.Protocol):
    """One connection; requests on it come one after another."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        if not end:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if len(body) < length:
            return
        self.data = b""
        if not head.startswith(b"POST"):
            self.transport.write(OK)
            return
        self.transport.write(HEAD)
        self.left = TOKENS
        self.due = asyncio.get_running_loop().time()
        self.send()

    def send(self) -> None:
        if self.transport.is_closing():
            return
        if not self.left:
            self.transport.write(LAST)
            return
        self.left -= 1
        self.transport.write(CHUNK)
        self.due += EVERY_S
        asyncio.get_running_loop().call_at(self.due, self.send)


async def serve(ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Stream, "127.0.0.1", port, backlog=1024) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve([int(port) for port in sys.argv[1:]]))
