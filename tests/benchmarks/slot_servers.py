"""Slot servers for load that is scaled: each is started by a request, and ready some seconds later.

``python -m tests.benchmarks.slot_servers START_S SERVICE_S SLOTS PORT…`` serves all ports from one process.
``POST /_start`` and ``POST /_stop`` of a port start and stop its server; ``GET /`` is its probe, 503 until it
is ready. Any other POST takes a slot for a time drawn around ``SERVICE_S`` (log-normal, sigma 0.3).
"""

import asyncio
import sys
from random import Random

SIGMA = 0.3
NEVER = float("inf")


class SlotServer:
    """One port."""

    def __init__(self, start_s: float, service_s: float, slots: int, seed: int) -> None:
        self._start_s, self._service_s = start_s, service_s
        self._slots = asyncio.Semaphore(slots)
        self._rng = Random(seed)
        self._ready_at = NEVER

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (field := await reader.readline()) not in (b"\r\n", b""):
                    if field.lower().startswith(b"content-length:"):
                        length = int(field.split(b":")[1])
                await reader.readexactly(length)
                status = await self._answer(line.split(b" ")[1])
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\n{}" % status)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: bytes) -> bytes:
        now = asyncio.get_running_loop().time()
        if path == b"/_start":
            self._ready_at = now + self._start_s
        elif path == b"/_stop":
            self._ready_at = NEVER
        elif now < self._ready_at:
            return b"503 Service Unavailable"
        elif path != b"/":
            async with self._slots:
                await asyncio.sleep(self._service_s * self._rng.lognormvariate(-(SIGMA**2) / 2, SIGMA))
        return b"200 OK"


async def serve(start_s: float, service_s: float, slots: int, ports: list[int]) -> None:
    servers = [SlotServer(start_s, service_s, slots, port) for port in ports]
    for server, port in zip(servers, ports, strict=True):
        await asyncio.start_server(server.connected, "127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), list(map(int, sys.argv[4:]))))
