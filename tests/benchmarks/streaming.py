"""What the proxy adds to each event of a stream: ``python -m tests.benchmarks.streaming [--rounds 3]``.

A scripted replica in another process writes 20 events, 50 ms apart, in chunks or ended by closing, and each
event tells when it was written. The clock stops when the client has read it, through a real proxy with one
worker, and from the replica directly in the same run; an HTTP/1.0 client gets the chunked answer without its
chunks. With many streams the replica's and this client's own turns are part of the figures, as the direct
ones show. The bar is 20 ms for each event.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import select
import socket
import statistics
import time

from tests.benchmarks.leaving import Bench, bench
from tests.benchmarks.scripted import EVENTS

LIMIT_S = 20.0
STREAMS = (1, 50)
KINDS = {"chunked": ("drip", 1), "ended by closing": ("until", 1), "chunked, HTTP/1.0 client": ("drip", 0)}
"""Script and the client's minor version."""
_EVENT = re.compile(rb"data: (\d+\.\d+)\n\n")


def stream(rig: Bench, port: int, script: str, minor: int, count: int) -> list[float]:
    """Milliseconds of each event of so many streams at once."""
    took: list[float] = []
    socks = {}
    epoll = select.epoll()
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        sock.sendall(b"GET /%b/%d HTTP/1.%d\r\nHost: a.test\r\n\r\n" % (script.encode(), rig.number(), minor))
        socks[sock.fileno()] = (sock, bytearray())
        epoll.register(sock, select.EPOLLIN)
    end = time.monotonic() + LIMIT_S
    while len(took) < count * EVENTS:
        assert time.monotonic() < end, f"{len(took)} of {count * EVENTS} events came"
        for fd, _ in epoll.poll(0.1):
            sock, received = socks[fd]
            data = sock.recv(65_536)
            now = time.monotonic()
            if not data:
                epoll.unregister(sock)
            received += data
            while found := _EVENT.search(received):
                took.append((now - float(found[1])) * 1000)
                del received[: found.end()]
    for sock, _ in socks.values():
        sock.close()
    rig.replica.forget()
    return took


def figures(took: list[float]) -> str:
    ninety_ninth = statistics.quantiles(took, n=100, method="inclusive")[98]
    return f"{statistics.median(took):8.2f}{ninety_ninth:8.2f}{max(took):8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{'ms from write to read':38}{'through the proxy':^24}  {'directly':^24}")
    print(f"{'':38}{'  median     p99   worst'}  {'  median     p99   worst'}")
    with bench() as rig:
        for kind, (script, minor) in KINDS.items():
            for count in STREAMS:
                through: list[float] = []
                directly: list[float] = []
                for _ in range(options.rounds):
                    through += stream(rig, rig.port, script, minor, count)
                    directly += stream(rig, rig.replica.port, script, minor, count)
                print(f"{kind + f', {count} at once':38}{figures(through)}  {figures(directly)}", flush=True)


if __name__ == "__main__":
    main()
