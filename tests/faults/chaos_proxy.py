"""A small chaos TCP proxy: stands before a server and does to its connections what its mode says.

``python -m tests.faults.chaos_proxy PORT SERVER``, the server's port or Unix socket. Each line of its
standard input is the mode from then on; a mode is acknowledged by a line of output.

=============== =======================================================================================
pass            forwards everything
latency         each piece of a response comes 0.3 s late
slice           responses come three bytes at a time
reset           RST instead of a response, after the server has had the request
half_close      FIN instead of a response, after the server has had the request
mid_body        the response without its end, then FIN
instant_500     a 500 at once; the server hears nothing
instant_nothing 200 with {} at once, which is no answer of any protocol; the server hears nothing
instant_empty   200 with a well-formed answer without content at once; the server hears nothing
not_http        bytes that are not HTTP at once, then FIN; the server hears nothing
dribble         the head and the first byte, and nothing more (one token a minute)
blackhole       swallows everything in both directions; what it has swallowed never comes
refuse          nothing listens, and what was open is reset
at_random       one in three responses: reset, half_close, mid_body or not_http, after the server has had it
=============== =======================================================================================
"""

import asyncio
import contextlib
import socket
import struct
import sys
from random import Random

MODES = (
    *("pass", "latency", "slice", "reset", "half_close", "mid_body", "instant_500", "not_http"),
    *("instant_nothing", "instant_empty"),
    *("dribble", "blackhole", "refuse", "at_random"),
)
LATE_S = 0.3
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nfault"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
NOTHING = JSON % (2, b"{}")
EMPTY_CHAT = b'{"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}'
EMPTY = JSON % (len(EMPTY_CHAT), EMPTY_CHAT)
EMPTY_EVENTS = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\ndata: [DONE]\n\n'
EMPTY_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
EMPTY_STREAM %= (len(EMPTY_EVENTS), EMPTY_EVENTS)
NOISE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is not HTTP\r\n\r\n"


class Chaos:
    """The proxy; :attr:`mode` holds for what comes next, on open connections too."""

    def __init__(self, port: int, server: str) -> None:
        self.port = port
        self._server_address = server
        self.mode = "pass"
        self._rng = Random(port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def set_mode(self, mode: str) -> None:
        """Raises ValueError for a mode that there is not."""
        if mode not in MODES:
            raise ValueError(f"no mode {mode!r}, only {', '.join(MODES)}")
        self.mode = mode
        if mode == "refuse":
            if self._server is not None:
                self._server.close()
                self._server = None
            for writer in list(self._writers):
                reset(writer)
        elif self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "refuse":  # it was taken just before that was said
            reset(writer)
            return
        self._writers.add(writer)
        try:
            server = await self._connect()
        except OSError:
            reset(writer)
            self._writers.discard(writer)
            return
        ways = (self._requests(reader, writer, server[1]), self._responses(server[0], writer))
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, server[1]):
            end.close()
        self._writers.discard(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._server_address.isdigit():
            return await asyncio.open_connection("127.0.0.1", int(self._server_address))
        return await asyncio.open_unix_connection(self._server_address)

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.mode == "instant_500":
                    writer.write(ERROR)
                elif self.mode == "instant_nothing":
                    writer.write(NOTHING)
                elif self.mode == "instant_empty":
                    writer.write(EMPTY_STREAM if b'"stream": true' in data else EMPTY)
                elif self.mode == "not_http":
                    writer.write(NOISE)
                    return
                elif self.mode == "blackhole":
                    await self._swallow(reader)
                else:
                    server.write(data)

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        """Until the other side gives up."""
        while await reader.read(65_536):
            pass

    async def _responses(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if writer.is_closing() or not await self._forward(data, writer, self._fault()):
                    return

    def _fault(self) -> str:
        if self.mode != "at_random":
            return self.mode
        drawn = self._rng.random()
        return "pass" if drawn > 1 / 3 else self._rng.choice(("reset", "half_close", "mid_body", "noise"))

    async def _forward(self, data: bytes, writer: asyncio.StreamWriter, fault: str) -> bool:
        """Whether the connection goes on."""
        if fault == "reset":
            reset(writer)
            return False
        if fault == "half_close":
            writer.write_eof()
            await asyncio.sleep(0.05)
            return False
        if fault == "noise":
            writer.write(NOISE)
            return False
        if fault == "mid_body":
            writer.write(data[:-4])
            return False
        if fault == "dribble":
            writer.write(data[: data.find(b"\r\n\r\n") + 5])
            await asyncio.sleep(3600)
        if fault == "blackhole":
            await asyncio.sleep(3600)
        if fault == "latency":
            await asyncio.sleep(LATE_S)
        if fault == "slice":
            for at in range(0, len(data), 3):
                writer.write(data[at : at + 3])
                await asyncio.sleep(0)
        else:
            writer.write(data)
        return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def main(port: int, server: str) -> None:
    chaos = Chaos(port, server)
    await chaos.set_mode("pass")
    print("pass", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await chaos.set_mode(line.decode().strip())
        print(chaos.mode, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
