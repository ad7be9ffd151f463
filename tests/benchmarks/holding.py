"""What the proxy holds for peers that do not read: ``python -m tests.benchmarks.holding [--connections 20]``.

A real proxy with one worker. Of each connection one side writes as much as is taken while the other reads
nothing, for some seconds. The figures are the growth of the worker's resident memory at its peak and at the
end, divided by the connections; what the kernel holds in its socket buffers is not among it. The bar is 1 MiB
for each connection, beyond what was read of a body to find its fleet. Whoever writes is paused where the last
column says so: its writes were not taken any more.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.leaving import UPGRADE, UPLOAD, Bench, bench, reset, send_head
from tests.benchmarks.processes import cpu_seconds
from tests.benchmarks.scripted import TINY_CHUNKS

BAR_KIB = 1024
STILL_S = 0.3
"""Nothing taken for so long: whoever writes is paused."""
LIMIT_S = 20.0
SMALL_BUFFER = 4096
"""Of the reading side's kernel, so that little is out of the proxy's hands."""


class Writer:
    """A client, and what it has still to send: the same piece again and again."""

    def __init__(self, bench: Bench, first: Callable[[int], bytes], piece: bytes, count: int) -> None:
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        self.sock.connect(("127.0.0.1", bench.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = bench.number()
        self.sock.sendall(first(self.number))
        self.sock.setblocking(False)
        self._piece = piece
        self._unsent = b""
        self._left = count

    @property
    def done(self) -> bool:
        return not self._left and not self._unsent

    def pump(self) -> bool:
        """Send what is taken; whether that was anything."""
        moved = False
        try:
            for _ in range(100):
                if not self._unsent:
                    if not self._left:
                        break
                    self._left -= 1
                    self._unsent = self._piece
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
                moved = True
        except BlockingIOError:
            pass
        return moved


def pump_all(writers: list[Writer]) -> bool:
    """Until nothing is taken any more; whether all of them were paused."""
    moved_at = began = time.monotonic()
    while time.monotonic() - moved_at < STILL_S and time.monotonic() - began < LIMIT_S:
        left = [writer for writer in writers if not writer.done]
        select.select([], [writer.sock for writer in left], [], 0.05)
        if sum(writer.pump() for writer in left):  # each of them, so not any()
            moved_at = time.monotonic()
    return all(not writer.done for writer in writers)


def settle(pid: int) -> None:
    """Until the worker has nothing to do any more."""
    end, before = time.monotonic() + LIMIT_S, -1.0
    while (now := cpu_seconds([pid])) - before > 0.02 and time.monotonic() < end:
        before = now
        time.sleep(STILL_S)


def asks(script: str, fields: str = "", method: str = "GET") -> Callable[[int], bytes]:
    return lambda number: f"{method} /{script}/{number} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n".encode()


GET_SMALL = b"GET /small/1 HTTP/1.1\r\nHost: a.test\r\n\r\n"
GET_MODELS = b"GET /v1/models HTTP/1.1\r\nHost: a.test\r\n\r\n"
SEARCHED = b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n"
CASES: dict[str, tuple[Callable[[int], bytes], bytes, int]] = {
    "100 MiB answer": (asks("flood"), b"", 0),
    "answer of 1-byte chunks": (asks("tiny"), b"", 0),
    "WebSocket frames": (asks("wsflood", UPGRADE), b"", 0),
    "64 MiB upload": (asks("deaf", f"Content-Length: {UPLOAD}\r\n", "POST"), bytes(65_536), UPLOAD // 65_536),
    "upload of 1-byte chunks": (
        asks("deaf", "Transfer-Encoding: chunked\r\n", "POST"),
        b"1\r\nx\r\n",
        10 * TINY_CHUNKS,
    ),
    "WebSocket, 1-byte writes": (asks("wsdeaf", UPGRADE), b"x", 10 * TINY_CHUNKS),
    "pipelined, 1 KiB answers": (lambda number: b"", GET_SMALL, 50_000),
    "pipelined, proxy's answers": (lambda number: b"", GET_MODELS, 50_000),
    "searched body, 2-byte writes": (lambda number: SEARCHED, b"xx", 100_000),
}
BY_REPLICA = ("100 MiB answer", "answer of 1-byte chunks", "WebSocket frames")


def memory_kib(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def hold(rig: Bench, case: str, connections: int) -> tuple[float, float, bool]:
    """KiB for each connection, at the peak and at the end, and whether the writing side was paused."""
    first, piece, count = CASES[case]
    base = rig.sockets()
    before = memory_kib(rig.worker, "VmRSS")
    Path(f"/proc/{rig.worker}/clear_refs").write_text("5")  # forget the peak
    writers = [Writer(rig, first, piece, count) for _ in range(connections)]
    if case in BY_REPLICA:
        paused = all(rig.replica.when("stalled", writer.number, LIMIT_S) is not None for writer in writers)
    else:
        paused = pump_all(writers)
    settle(rig.worker)
    peak, now = memory_kib(rig.worker, "VmHWM"), memory_kib(rig.worker, "VmRSS")
    for writer in writers:
        reset(writer.sock)
    rig.wait_for_sockets(base)
    return (peak - before) / connections, (now - before) / connections, paused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--case", choices=CASES, help="this one only")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{'KiB a connection (' + str(options.connections) + ')':32}{'peak':>8}{'held':>8}  paused")
    for case in [options.case] if options.case else CASES:
        with bench() as rig:
            reset(send_head(rig, "hang")[0])
            peak, held, paused = hold(rig, case, options.connections)
        print(f"{case:32}{peak:8.0f}{held:8.0f}  {'yes' if paused else 'no'}", flush=True)


if __name__ == "__main__":
    main()
