"""What others notice of hostile clients: ``python -m tests.benchmarks.hostile_clients [--case NAME]``.

A real proxy with one worker, a fast replica, one that reads slowly, and one that reads only heads. Regular
clients post 1 KiB in two pieces to the fast one, some on kept connections and some on a new one for each
request. They do so first in quiet, then while others, a process of their own, do one of these:

============ =========================================================================================
stalled      80 uploads of 8 MiB − 1 byte, whose fleet only the body names; then silence
large        500 uploads of 8 MiB to the slow replica
streams      2,000 uploads, whose fleet the path names, to the replica that reads only heads
heads        5,000 half heads, at 1,000 places
silent       5,000 connections that send nothing, 700 a second, at 500 places
readers      200 clients that read nothing of a large response, at 100 places
readers-many 2,000 of them, with places for all
============ =========================================================================================

The figures: regular clients' failed requests (bar: 0), their 99th percentile from the last piece to the
response, and that divided by the quiet one's (bar: 2), the peak of the worker's memory (bar: 400 MiB), and
what gave way. All of this runs on one machine. Hostile clients and slow replicas, which in reality have
machines of their own, have one CPU, and what the system leaves over there; the proxy, regular clients and the
fast replica have another one (``--equal``: all share all CPUs, and nobody comes first). What hostile clients
take all the same, of caches and memory, is measured *beside*: the same is done to another proxy with replicas
of its own. That part of the delay is the machine's, and the second ratio is that of ``p99`` to ``beside``.

Hostile clients have another address than the regular ones, unless ``--together`` is given: behind a NAT
nothing tells them apart until they have done something.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import ClassVar

import uvloop

from tests.benchmarks.processes import pin, two_cpus
from tests.proxy_process import Proxy

OUR_CPU, THEIR_CPU = two_cpus()
"""Asked before this process is held to one."""
MIB = 1 << 20
LARGE = 8 * MIB
REGULAR = 24
PAUSE_S = 0.05
GAP_S = 0.005
"""Between the two pieces of a regular body."""
READ_EVERY_S = 0.2
"""The slow replica reads once in so long, of each connection."""
FLOOD = bytes(MIB)
NARROW = 16_384
HEAD = "POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RAMP_S = {"silent": 0.07, "streams": 0.1, "readers-many": 0.1}
"""Pause after every 50 connections, else 0.02 s: what is asked is what they hold, not how fast they come."""
PLACES = {"heads": 1000, "silent": 500, "readers": 100}


def body(model: str, size: int) -> bytes:
    start = b'{"model": "%b", "prompt": "' % model.encode()
    return start + b"x" * (size - len(start) - 2) + b'"}'


def request(model: str, size: int) -> bytes:
    return HEAD.format(size).encode() + body(model, size)


# --- replicas -----------------------------------------------------------------------------------------


class Replica(asyncio.Protocol):
    """Answers each request whose head announces its length; a GET with 64 MiB."""

    slow = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._head = b""
        self._left = 0
        self._flooding = 0

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._head = b""
            if head.startswith(b"GET "):
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
                self._flooding = 64
                self.resume_writing()
                return
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
            self._left = int(length[1]) if length is not None else 0
            data = rest
        self._left -= len(data)
        if not self._left:
            self.transport.write(OK)
        elif self.slow:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(READ_EVERY_S, self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        while self._flooding and not self._paused:
            self._flooding -= 1
            self.transport.write(FLOOD)


class SlowReplica(Replica):
    slow = True


class DeafReplica(Replica):
    open: ClassVar[set[DeafReplica]] = set()
    """Nothing else refers to one that is not read."""

    def data_received(self, data: bytes) -> None:
        self.transport.pause_reading()
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    kinds = (Replica, SlowReplica, DeafReplica)
    servers = [await loop.create_server(kind, "127.0.0.1", 0, backlog=4096) for kind in kinds]
    servers[-1].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


# --- regular clients ------------------------------------------------------------------------------------


class Figures:
    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.failures: list[str] = []

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.latencies, n=100)[98] if len(self.latencies) > 1 else float("nan")


async def regular(port: int, until: float, keeps: bool, figures: Figures) -> None:
    """Posts until then; ``keeps`` its connection."""
    whole = request("fast", 1024)
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    while time.monotonic() < until:
        try:
            if streams is None:
                streams = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = streams
            writer.write(whole[:-500])
            await asyncio.sleep(GAP_S)
            began = time.monotonic()
            writer.write(whole[-500:])
            async with asyncio.timeout(30):
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200 "):
                    said = re.search(rb'"code":"(\w+)"', await reader.read(1000))
                    raise ConnectionError(f"{head[9:12].decode()} {said[1].decode() if said else ''}")
                await reader.readexactly(2)
            figures.latencies.append(time.monotonic() - began)
            if not keeps:
                writer.close()
                streams = None
        except (OSError, EOFError, TimeoutError) as problem:
            figures.failures.append(f"{type(problem).__name__}: {problem}")
            if streams is not None:
                streams[1].close()
            streams = None
        await asyncio.sleep(PAUSE_S)


async def regulars(port: int, seconds: float) -> Figures:
    figures = Figures()
    until = time.monotonic() + seconds
    await asyncio.gather(*(regular(port, until, number % 2 == 0, figures) for number in range(REGULAR)))
    return figures


# --- hostile clients ------------------------------------------------------------------------------------


async def connect(port: int, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Its kernel takes little, so that what is not read is the proxy's to hold."""
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
    sock.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, limit=4096)


async def stalled(port: int, source: str) -> None:
    _, writer = await connect(port, source)
    writer.write(request("slow", LARGE)[:-1])
    await asyncio.Event().wait()


async def large(port: int, source: str) -> None:
    reader, writer = await connect(port, source)
    writer.write(request("slow", LARGE))
    statuses[(await reader.readuntil(b"\r\n"))[9:12].decode()] += 1
    writer.close()


async def stream(port: int, source: str) -> None:
    """As much as is taken; then silence."""
    _, writer = await connect(port, source)
    writer.write(
        b"POST /fleets/deaf/upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (64 * MIB)
    )
    writer.write(FLOOD)
    await asyncio.Event().wait()


async def half_head(port: int, source: str) -> None:
    _, writer = await connect(port, source)
    writer.write(b"GET / HTTP/1.1\r\nHost: a.te")
    await asyncio.Event().wait()


async def silence(port: int, source: str) -> None:
    await connect(port, source)
    await asyncio.Event().wait()


async def slow_reader(port: int, source: str) -> None:
    _, writer = await connect(port, source)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"GET /fleets/slow/flood HTTP/1.1\r\nHost: a.test\r\n\r\n")
    await asyncio.Event().wait()


ATTACKS: dict[str, tuple[int, Callable[[int, str], Awaitable[None]]]] = {
    "stalled": (80, stalled),
    "large": (500, large),
    "streams": (2000, stream),
    "heads": (5000, half_head),
    "silent": (5000, silence),
    "readers": (200, slow_reader),
    "readers-many": (2000, slow_reader),
}
statuses: Counter[str] = Counter()


async def attack(case: str, port: int, source: str, seconds: float) -> None:
    number, act = ATTACKS[case]

    async def one() -> None:
        with contextlib.suppress(OSError, EOFError):
            await act(port, source)

    tasks = []
    for count in range(number):
        tasks.append(asyncio.ensure_future(one()))
        if count % 50 == 49:
            await asyncio.sleep(RAMP_S.get(case, 0.02))
    await asyncio.wait(tasks, timeout=seconds)
    print(json.dumps(statuses), flush=True)


# --- all together ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def child(*arguments: str, aside: bool = False) -> Iterator[subprocess.Popen[str]]:
    """``aside``: on the other CPU, if there are two, and after all others there."""
    cpu = THEIR_CPU if aside else None
    command = ["nice", "-n", "19" if aside else "0", sys.executable, "-m", __spec__.name, *arguments]
    preparation = None if cpu is None else lambda: pin(cpu)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=preparation)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fleets(fast: int, slow: int, deaf: int) -> str:
    policy = {"strategy": "round_robin", "slow_start_s": 0, "timeouts": {"total_s": 600}}
    named = {"fast": fast, "slow": slow, "deaf": deaf}
    return json.dumps(
        {
            "version": 1,
            "fleets": [
                {
                    "name": name,
                    "protocol": "openai",
                    "expose": "all",
                    "policy": policy,
                    "replicas": [{"name": name, "url": f"http://127.0.0.1:{port}"}],
                }
                for name, port in named.items()
            ],
        }
    )


def peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def gave_way(proxy: Proxy) -> str:
    rows = re.findall(r'^switchyard_gave_way_total{reason="(\w+)"} (\d+)', proxy.admin("/metrics")[1], re.M)
    return ", ".join(f"{reason} {count}" for reason, count in rows if count != "0") or "nothing"


@contextlib.contextmanager
def running(case: str, directory: Path, aside: bool) -> Iterator[Proxy]:
    """A proxy before three replicas."""
    # What the slow ones do is not to delay the fast one.
    with child("--role", "replicas") as replicas, child("--role", "replicas", aside=aside) as others:
        assert replicas.stdout is not None
        assert others.stdout is not None
        fast, _, _ = map(int, replicas.stdout.readline().split())
        _, slow, deaf = map(int, others.stdout.readline().split())
        file = directory / f"{case}-{fast}.yaml"
        file.write_text(fleets(fast, slow, deaf))
        places = ["--max-connections", str(PLACES[case])] if case in PLACES else []
        proxy = Proxy(directory, "--fleets", str(file), "--workers", "1", *places)
        try:
            yield proxy.ready()
        finally:
            proxy.stop()


def attacked(case: str, at: Proxy, measured: Proxy, options: argparse.Namespace) -> tuple[Figures, str]:
    """What regular clients of ``measured`` notice while the other proxy is attacked, and what it answered."""
    source = "127.0.0.1" if options.together else "127.0.0.2"
    arguments = ("--port", str(at.port), "--source", source, "--seconds", str(options.seconds))
    with child("--role", "hostile", "--case", case, *arguments, aside=not options.equal) as hostile:
        figures = asyncio.run(regulars(measured.port, options.seconds))
        assert hostile.stdout is not None
        return figures, hostile.stdout.readline().strip() if case in ("large", "streams") else ""


def measure(case: str, options: argparse.Namespace, directory: Path) -> None:
    aside = not options.equal
    with running(case, directory, aside) as proxy:
        [worker] = proxy.workers()
        asyncio.run(regulars(proxy.port, 1.0))
        quiet = asyncio.run(regulars(proxy.port, options.seconds / 2))
        with running(case, directory, aside) as other:
            beside, _ = attacked(case, other, proxy, options)
        Path(f"/proc/{worker}/clear_refs").write_text("5")  # forget the peak
        under, said = attacked(case, proxy, proxy, options)
        time.sleep(1.5)
        print(
            f"{case:13}{len(under.latencies) + len(under.failures):9}{len(under.failures):8}"
            f"{1000 * quiet.p99:7.1f}{1000 * beside.p99:8.1f}{1000 * under.p99:7.1f}"
            f"{under.p99 / quiet.p99:7.2f}{under.p99 / beside.p99:7.2f}"
            f"{peak_mib(worker):6.0f}  {gave_way(proxy)} {said}",
            flush=True,
        )
        for failure in sorted(set(under.failures))[:5]:
            print(f"              {failure} × {under.failures.count(failure)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", choices=ATTACKS, help="this one only")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--together", action="store_true", help="all have the same address")
    parser.add_argument("--equal", action="store_true", help="hostile clients have as much CPU as others")
    parser.add_argument("--role", choices=("replicas", "hostile"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--source", default="127.0.0.1", help=argparse.SUPPRESS)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.install()
    if options.role == "replicas":
        asyncio.run(serve())
    elif options.role == "hostile":
        asyncio.run(attack(options.case, options.port, options.source, options.seconds))
    else:
        if OUR_CPU is not None and not options.equal:
            pin(OUR_CPU)
        print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; times in ms")
        print(
            "case          requests  failed  quiet  beside    p99 ÷quiet ÷beside  MiB  gave way; times in ms"
        )
        with tempfile.TemporaryDirectory() as directory:
            for case in [options.case] if options.case else ATTACKS:
                measure(case, options, Path(directory))


if __name__ == "__main__":
    main()
