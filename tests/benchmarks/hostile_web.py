"""What hostile bodies cost the web process: ``python -m tests.benchmarks.hostile_web``.

A real web process, as ``make up`` starts it, and four clients without any account. Each posts 1 GiB to the
web port, sends as much of it as is taken for some seconds, and then keeps its connection open in silence.
First they say how much comes (``Content-Length``), then they send chunks and do not.

The figures, before and after: the process's memory, and its peak; what is used of the disks that hold its
data and its temporary files. Other processes write there as well: an idle pause of the same length is
measured first. And how much of the bodies was taken, kept or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from tests.browser.site import Site
from tests.conftest import RedisServer

MIB = 1 << 20
CLIENTS = 4
SIZE = 1024 * MIB
SEND_S = 6.0
SILENCE_S = 4.0
PIECE = bytes(MIB)
HEAD = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"


def memory_mib(pid: int, field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def disk_mib(*folders: Path) -> float:
    """Used of their disks."""
    disks = {os.stat(folder).st_dev: folder for folder in folders}
    return sum(shutil.disk_usage(folder).used for folder in disks.values()) / MIB


class Hostile:
    def __init__(self) -> None:
        self.taken = 0

    async def post(self, port: int, chunked: bool) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            HEAD
            + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % SIZE)
        )
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(SEND_S):
                for _ in range(SIZE // MIB):
                    writer.write(b"%x\r\n%b\r\n" % (MIB, PIECE) if chunked else PIECE)
                    await writer.drain()
                    self.taken += MIB
        await asyncio.sleep(SILENCE_S)
        writer.transport.abort()

    async def together(self, port: int, chunked: bool) -> None:
        await asyncio.gather(*(self.post(port, chunked) for _ in range(CLIENTS)))


def measure(name: str, site: Site, folder: Path, chunked: bool | None) -> None:
    assert site.process is not None
    pid, hostile = site.process.pid, Hostile()
    folders = (folder, Path(tempfile.gettempdir()))
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the peak
    memory, disk = memory_mib(pid, "VmRSS"), disk_mib(*folders)
    if chunked is None:
        time.sleep(SEND_S + SILENCE_S)
    else:
        asyncio.run(hostile.together(site.port, chunked))
    print(
        f"{name:15}{memory:8.0f}{memory_mib(pid, 'VmRSS'):8.0f}{memory_mib(pid, 'VmHWM'):8.0f}"
        f"{disk_mib(*folders) - disk:+10.1f}{hostile.taken / MIB:8.0f}",
        flush=True,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        redis = RedisServer(folder / "redis.sock")
        redis.start()
        site = Site(folder, redis.url)
        try:
            site.start()
            print("case             before   after    peak      disk   taken; MiB")
            measure("nothing", site, folder, None)
            measure("Content-Length", site, folder, chunked=False)
            measure("chunks", site, folder, chunked=True)
        finally:
            site.stop()
            redis.stop()


if __name__ == "__main__":
    main()
