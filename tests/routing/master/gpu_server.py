"""A model server that runs out of memory as one on a GPU does: it takes what it was told to, and dies of it.

    python gpu_server.py MEMORY_BYTES MODEL=WEIGHTS,REQUEST,SECONDS …

One process serves several models, as on one device: its address space is limited to what it has once it
has started, and MEMORY_BYTES. The weights are taken at once. ``/MODEL`` takes REQUEST bytes for SECONDS, and
every page of them is written to; who asks hears how much was taken at most, by all requests together. It
prints its port.
"""

import asyncio
import json
import mmap
import os
import resource
import sys
from pathlib import Path

KILLED_BY_OOM = 137
PAGE = mmap.PAGESIZE


class Memory:
    """What requests hold now, and held at most."""

    def __init__(self) -> None:
        self.held = 0
        self.peak = 0

    def take(self, size: int) -> mmap.mmap:
        """Like an allocator of GPU memory: when there is none left, that is the end."""
        try:
            taken = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (MemoryError, OSError):
            os._exit(KILLED_BY_OOM)
        for at in range(0, size, PAGE):
            taken[at] = 1
        self.held += size
        self.peak = max(self.peak, self.held)
        return taken

    def give_back(self, taken: mmap.mmap) -> None:
        self.held -= len(taken)
        taken.close()


async def main(memory_bytes: int, models: dict[str, tuple[int, int, float]]) -> None:
    memory = Memory()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                model = head.split(b" ", 2)[1].decode().strip("/").partition("/")[0]
                _, size, seconds = models[model]
                taken = memory.take(size)
                try:
                    # Who has asked may leave.
                    async with asyncio.timeout(seconds):
                        await reader.readexactly(1)
                except TimeoutError:
                    pass
                finally:
                    memory.give_back(taken)
                body = json.dumps({"peak": memory.peak}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory_bytes, resource.RLIM_INFINITY))
    weights = [memory.take(size) for size, _, _ in models.values()]
    memory.held = memory.peak = 0
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
    weights.clear()


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * PAGE


def _model(words: str) -> tuple[str, tuple[int, int, float]]:
    name, _, numbers = words.partition("=")
    weights, request, seconds = numbers.split(",")
    return name, (int(weights), int(request), float(seconds))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), dict(map(_model, sys.argv[2:]))))
