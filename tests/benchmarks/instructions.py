"""Instructions that one proxied request costs, and one event of a stream; a pick with ``--picks``.

    python -m tests.benchmarks.instructions [--rounds 3] [--requests 16000] [--events 64000] [--heads ids]
        [--key] [--models served] [--slots 1000] [--strategy NAME] [--answers vllm] [--apart]
        [--traces RATIO]
    python -m tests.benchmarks.instructions --streams 400 [--answers vllm]
    python -m tests.benchmarks.instructions --picks [--strategies A,B]

A real proxy with one worker, run from a fleet file, is counted by valgrind's cachegrind, process by process.
A client and four replicas outside of valgrind speak to it over loopback, one step after the other: the next
request is sent when the last one was answered, the next event when the last one was read. So each request
and each event has the same turns of the loop, however slow the machine is. It is run three times: for a short
load, for more requests, and for more events. The difference of two runs, divided by what one had more, is the
figure: start and end of the process drop out. All three last equally long, so that what timers do drops out
too; the worker's clock counts how often it is read (`WORKER`), and ``PYTHONHASHSEED`` is 0.

``--answers`` says what replicas send (:mod:`tests.benchmarks.recorded`): ``plain`` is always the same. What
vLLM sends as head and body comes in one segment, as a busy proxy reads it, or ``--apart``, as an idle one
does. ``--streams`` counts something else: a stream of three tokens on a connection of its own, as a client
opens it; its head is sent and read by itself, as that of a server which writes it by itself.

CPU time depends on what else the machine does, instructions hardly do: figures of two trees can be compared
when they were taken at different times. They say nothing of caches, nor of the kernel's part. The spread is
that of one call of this program: picks repeat to the instruction, and yet another caller's were 1 % apart.
"""

import argparse
import os
import platform
import re
import selectors
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.processes import running
from tests.benchmarks.recorded import KINDS, Answers, request_body

LIMIT_S = 180.0
"""Of one step, and of the proxy's start: under valgrind all takes thirty times as long."""
BODY, STREAM_BODY = request_body(500), request_body(500, stream=True)
BEGAN = 1_790_000_000.0
"""Unix time of the first answer: the same in each run."""
PER_SECOND = 5000
"""Answers whose date is the same."""
OPENING_EVENTS = 3
STREAM_END = 12
"""Bytes by which the end of a segment is known, however it is chunked."""
KEY = "sy-" + "k" * 43
DECLARES = {"any": "", "own": "expose: inference", "served": "served_model: m"}
"""What the fleet says of its models: nothing, as fleets from before ``expose``; that clients reach its own
only; how its replicas call it."""
COUNTED = re.compile(r"^summary: (\d+)", re.MULTILINE)


PARENT = """
import time
real = time.monotonic
time.monotonic = lambda: real() / 20
import runpy, sys
sys.executable = sys.argv.pop(1)
runpy.run_module("routing", run_name="__main__", alter_sys=True)
"""
"""The proxy's parent, with another interpreter for its workers, and with a slow clock: it has patience with
a worker that is counted, when that starts and when it ends."""
WORKER = """
import asyncio, itertools, os, random, runpy, sys, time
class Seeded(random.Random):
    def __init__(self, seed=1):
        super().__init__(seed)
random.Random = Seeded
time.monotonic = itertools.count(1000.0, 50e-6).__next__
pause = asyncio.sleep
asyncio.sleep = lambda delay, result=None: pause(50 * delay, result)
try:
    from routing.http import held_heads
    held_heads.HOLD_S *= 50
    from routing.ipc import finished_traces
    finished_traces.MAX_WAITING_SPANS *= 50
except ImportError:
    pass
module = sys.argv[2]
del sys.argv[1:3]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as end:
    os._exit(end.code or 0)
os._exit(0)
"""
"""Given ``-m MODULE …``: runs it, and leaves out the interpreter's own end, which takes long. Chance is the
same each time. What a worker does so many times a second would be more a request on a slower machine: its
clock moves on by 50 µs whenever it is read, tasks sleep fifty times as long, a head is held (where the tree
holds heads) fifty times as long, and fifty times as many spans wait until they are sent."""
REPEATABLE = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": ""}
"""Without its compiled modules a worker would start for half a minute."""

TRACED = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
}
"""Nobody listens there: what the master does with spans is not counted."""


@dataclass(frozen=True)
class Load:
    requests: int
    streams: int
    events: int
    """Of each stream."""
    opening: int = 0
    """Streams of ``OPENING_EVENTS``, each on a new connection of the client's."""


class Peers:
    """The client and the replicas, in one thread: who is to speak next is known."""

    def __init__(self, heads: str, key: str, answers: str, apart: bool) -> None:
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]
        self._selector = selectors.DefaultSelector()
        for listener in self.listeners:
            self._selector.register(listener, selectors.EVENT_READ, True)
        self._client: socket.socket
        self._port = 0
        self._heads = heads
        self._key = f"Authorization: Bearer {key}\r\n".encode() if key else b""
        self._number = 0
        self._answers = Answers(answers)
        self._apart = apart

    def connect(self, port: int) -> None:
        self._port = port
        self._client = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self, load: Load) -> None:
        for _ in range(load.requests):
            replica = self.ask(BODY)
            head, body = self._answers.whole(BEGAN + self._number // PER_SECOND)
            if self._apart:
                replica.sendall(head)
                until_read(replica)
                replica.sendall(body)
            else:
                replica.sendall(head + body)
            self.read_until(body)
        for _ in range(load.streams):
            replica = self.ask(STREAM_BODY)
            for segments in self._answers.stream(BEGAN + self._number // PER_SECOND, load.events):
                sent = b"".join(segments)
                replica.sendall(sent)
                self.read_until(sent[-STREAM_END:])
        for _ in range(load.opening):
            self.open_stream()

    def open_stream(self) -> None:
        self._client.close()
        self.connect(self._port)
        replica = self.ask(STREAM_BODY)
        first, *others = self._answers.stream(BEGAN + self._number // PER_SECOND, OPENING_EVENTS)
        head, _, events = b"".join(first).partition(b"\r\n\r\n")
        replica.sendall(head + b"\r\n\r\n")
        until_read(replica)
        for sent in (events, *(b"".join(segments) for segments in others)):
            replica.sendall(sent)
            self.read_until(sent[-STREAM_END:])

    def close(self) -> None:
        self._client.close()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def ask(self, body: bytes) -> socket.socket:
        """Send a request; the replica's connection on which it came, whole."""
        self._number += 1
        ids = b"X-Request-Id: request-%08d\r\n" % self._number if self._heads == "ids" else b""
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n%b%b" % (self._key, ids)
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._client.sendall(head + body)
        received: dict[socket.socket, bytes] = {}
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for key, _ in self._selector.select(1.0):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if key.data:
                    connection, _ = sock.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._selector.register(connection, selectors.EVENT_READ, False)
                elif not (data := sock.recv(65_536)):
                    self._selector.unregister(sock)
                    sock.close()
                else:
                    received[sock] = received.get(sock, b"") + data
                    if received[sock].endswith(body):
                        return sock
        sys.exit(f"request {self._number} reached no replica")

    def read_until(self, last: bytes) -> None:
        received = b""
        while not received.endswith(last):
            data = self._client.recv(65_536)
            if not data or (data.startswith(b"HTTP/") and not data.startswith(b"HTTP/1.1 200")):
                sys.exit(f"request {self._number} was answered {received + data!r}")
            received += data


def until_read(sock: socket.socket) -> None:
    """Until the peer has read what was sent to it, as the kernel's table of sockets says."""
    local, remote = (f"0100007F:{address[1]:04X}" for address in (sock.getpeername(), sock.getsockname()))
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        for line in Path("/proc/net/tcp").read_text().splitlines():
            fields = line.split()
            if fields[1:3] == [local, remote]:
                if fields[4].endswith(":00000000"):
                    return
                break
    sys.exit("the proxy does not read an answer")


def write_fleets(
    folder: Path,
    ports: list[int],
    strategy: str,
    key: str,
    slots: int | None,
    declares: str = "",
    continuation: str = "",
) -> Path:
    """``declares``: further lines of the fleet."""
    policy = {"strategy": strategy, "max_concurrency": slots, "continuation": continuation}
    given = ", ".join(f"{name}: {value}" for name, value in policy.items() if value)
    lines = ["version: 1", "fleets:", "  - name: m", "    protocol: openai"]
    lines += [f"    policy: {{{given}}}"] if given else []
    lines += [f"    {declares}"] if declares else []
    lines += ["    replicas:"]
    lines += [f'      - {{name: r{at}, url: "http://127.0.0.1:{port}"}}' for at, port in enumerate(ports)]
    if key:
        (folder / "key").write_text(key)
        lines.append("client_keys: [{name: benchmark, key: 'file:key', fleets: [m]}]")
    fleets = folder / "fleets.yaml"
    fleets.write_text("\n".join(lines) + "\n")
    return fleets


def counting(folder: Path) -> list[str]:
    """The beginning of a command whose instructions are counted, in a file of the folder."""
    tool = ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=no"]
    return [*tool, f"--cachegrind-out-file={folder}/counts.%p", sys.executable]


def instructions(folder: Path) -> int:
    """What the one process that was counted has run."""
    found = [COUNTED.findall(path.read_text()) for path in folder.glob("counts.*")]
    if len(found) != 1 or len(found[0]) != 1:
        sys.exit(f"{len(found)} workers were counted, not one")
    return int(found[0][0])


def proxy_command(folder: Path) -> list[str]:
    """The beginning of the proxy's command. Its parent runs uncounted, at full speed; as the interpreter of
    workers it finds a script that counts them."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join([*counting(folder), "-c", WORKER])} "$@"\n')
    python.chmod(0o700)
    return [sys.executable, "-c", PARENT, str(python)]


def count_load(load: Load, options: argparse.Namespace, lasts_s: float) -> tuple[int, float]:
    """Instructions of a worker that bears this load and is idle until ``lasts_s`` are over, and the seconds
    that the load alone took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        key = KEY if options.key else ""
        peers = Peers(options.heads, key, options.answers, options.apart)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        fleets = write_fleets(
            folder,
            peers.ports,
            options.strategy,
            key,
            options.slots,
            DECLARES[options.models],
            options.continuation,
        )
        command = [*proxy_command(folder), "--fleets", str(fleets), "--listen", f"127.0.0.1:{port}"]
        command += ["--workers", "1", "--admin", "none", "--min-drain-seconds", "0", "--log-level", "error"]
        environment = REPEATABLE
        if options.traces is not None:
            command += ["--traces-per-second", "10000"]
            environment = {**REPEATABLE, **TRACED, "OTEL_TRACES_SAMPLER_ARG": str(options.traces)}
        proxy = running(command, port, None, environment=environment, log=folder / "log", limit_s=LIMIT_S)
        with proxy as process:
            peers.connect(port)
            peers.run(Load(1, 1, 3))
            begin = time.monotonic()
            peers.run(load)
            took = time.monotonic() - begin
            time.sleep(max(0.0, lasts_s - took))
            peers.close()
            process.terminate()
            if process.wait(LIMIT_S) != 0:
                sys.exit(f"the proxy ended with {process.returncode}:\n{(folder / 'log').read_text()}")
        return instructions(folder), took


def measure(options: argparse.Namespace) -> list[tuple[float, float]]:
    """(Instructions a request, an event) of each round."""
    short = Load(options.warm_up, 4, 25)
    more_requests = replace(short, requests=options.warm_up + options.requests)
    more_events = replace(short, events=short.events + options.events // 4)
    # Not a part of the figures also because the first worker may compile modules of other packages.
    tried_s = 1.15 * max(count_load(load, options, 0)[1] for load in (more_requests, more_events))
    lasts_s = options.lasts or tried_s
    print(f"each run lasts {lasts_s:.0f} s", file=sys.stderr)
    found = []
    for number in range(options.rounds):
        counts = []
        for load in (short, more_requests, more_events):
            count, took = count_load(load, options, lasts_s)
            counts.append(count)
            if took > lasts_s:
                print(f"a run took {took:.1f} s, longer than the others: give --lasts", file=sys.stderr)
        request = (counts[1] - counts[0]) / options.requests
        event = (counts[2] - counts[0]) / (4 * (options.events // 4))
        print(f"round {number + 1}: {request:,.0f} a request, {event:,.0f} an event", file=sys.stderr)
        found.append((request, event))
    return found


def measure_streams(options: argparse.Namespace) -> list[float]:
    """Instructions of a stream on a new connection, of each round."""
    short = Load(20, 4, 25, opening=40)
    more = replace(short, opening=40 + options.streams)
    lasts_s = options.lasts or 1.15 * count_load(more, options, 0)[1]
    print(f"each run lasts {lasts_s:.0f} s", file=sys.stderr)
    found = []
    for _ in range(options.rounds):
        few, many = (count_load(load, options, lasts_s)[0] for load in (short, more))
        found.append((many - few) / options.streams)
    return found


def figure(values: list[float]) -> str:
    spread = (max(values) - min(values)) / statistics.median(values) * 100
    return f"{statistics.median(values):12,.0f}   ({min(values):,.0f} to {max(values):,.0f}: {spread:.2f} %)"


# --- picks: in a process of their own, without sockets -----------------------------------------------

PICKS = """
import sys
from tests.benchmarks import picking
strategy, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
picking.REQUESTS = count
picking.begin_and_settle(picking.make_pool(strategy, size, None, None))
"""


def count_picks(strategy: str, size: int, picks: int) -> float:
    """Instructions of begin + settle, as in tests/benchmarks/picking.py, without counts of other workers. No
    request has a key, so strategies that go by one pick as they do without."""
    environment = {**os.environ, **REPEATABLE}
    # Uncounted: whoever is first compiles modules, which would be a part of one of the counts.
    subprocess.run([sys.executable, "-c", PICKS, strategy, str(size), "1000"], check=True, env=environment)
    counts = []
    for count in (1000, 1000 + picks):
        with tempfile.TemporaryDirectory() as name:
            command = [*counting(Path(name)), "-c", PICKS, strategy, str(size), str(count)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=environment)
            counts.append(instructions(Path(name)))
    return (counts[1] - counts[0]) / picks


def report_picks(options: argparse.Namespace) -> None:
    print(f"{'strategy':22}{'replicas':>9}   instructions of begin + settle")
    for strategy in options.strategies.split(","):
        for size in (4, 16, 64):
            values = [count_picks(strategy, size, 2000) for _ in range(options.rounds)]
            print(f"{strategy:22}{size:>9}{figure(values)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=16_000, help="that a run has more than the short one")
    parser.add_argument("--events", type=int, default=64_000, help="likewise")
    parser.add_argument("--warm-up", type=int, default=2000, help="requests of the short run")
    parser.add_argument("--lasts", type=float, default=0, help="seconds of each run; default: as one takes")
    parser.add_argument("--heads", choices=("same", "ids"), default="same", help="how requests' heads differ")
    parser.add_argument("--key", action="store_true", help="ask for a client key, and send it")
    parser.add_argument("--strategy", default="", help="of the fleet; default: the policy's own")
    parser.add_argument("--models", choices=DECLARES, default="any", help="what the fleet says of its models")
    parser.add_argument("--slots", type=int, help="max_concurrency of each replica, which is never reached")
    parser.add_argument("--continuation", default="", help="that of the policy, as auto: what passes is kept")
    parser.add_argument("--answers", choices=KINDS, default="plain", help="whose answers replicas send")
    parser.add_argument(
        "--traces", type=float, metavar="RATIO", help="record this share of requests as traces"
    )
    parser.add_argument("--streams", type=int, metavar="N", help="count streams on new connections, so many")
    parser.add_argument("--apart", action="store_true", help="a body is sent once its head was read")
    parser.add_argument("--picks", action="store_true", help="count picks alone")
    parser.add_argument("--strategies", metavar="A,B", default="least_expected_work,round_robin")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("Skipped: this benchmark needs valgrind (apt-get install valgrind).")
        return
    tool = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True).stdout
    python = f"Python {platform.python_version()}"
    print(f"{platform.machine()}, {python}, {tool.strip()}; median (least to most: spread)")
    if options.picks:
        report_picks(options)
        return
    setup = f"four replicas, {options.strategy or 'default strategy'}, slots: {options.slots or 'none'}"
    print(f"{setup}, heads: {options.heads}{', with a client key' if options.key else ''}")
    print(f"answers of {options.answers}{', head and body apart' if options.apart else ''}")
    if options.traces is not None:
        print(f"{options.traces:.2%} of the requests are recorded as traces")
    subprocess.run([sys.executable, "-m", "compileall", "-q", "routing"], check=True)
    if options.streams:
        print(f"instructions a stream  {figure(measure_streams(options))}")
        return
    found = measure(options)
    print(f"instructions a request {figure([request for request, _ in found])}")
    print(f"instructions an event  {figure([event for _, event in found])}")


if __name__ == "__main__":
    main()
