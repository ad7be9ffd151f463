"""Equal replicas share the load equally, on the wire: ``python -m tests.benchmarks.equal_replicas [PART …]``.

Four equal replicas stand behind a real proxy with the default strategy, run from a fleet file. Three parts:

``saturated``
    Batching servers, of which each request in flight slows the others down. More short requests than the
    replicas' limits allow at once; then, when those have ended, 100 streams at once. Printed are each one's
    share of the short ones, and the streams' time to the first token, beside that of a proxy without limits.
``starting``
    Servers with slots, three of which take 2 s for each of their first three answers, as if they were
    compiling. 40 requests of 100 ms a second come at random. Printed is each one's share later on.
``waiting``
    Servers with slots, as many as the limit says, at 85 % load; nine of ten requests take 20 ms, one 400 ms.
    Printed is how many reached a replica 5 ms and more late although another had nothing to do meanwhile.

Client and replicas are this process, with one clock. Printed are medians and extremes of the rounds. Nothing
passes or fails.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

from tests.benchmarks.processes import running, two_cpus
from tests.ports import free_ports

REPLICAS = 4
BATCHING_LIMIT, SLOTS = 64, 8
SHORT_S, CLIENTS, SATURATED_S = 0.01, 400, 10.0
STREAMS, FIRST_S, EVENT_S, EVENTS = 100, 0.02, 0.01, 30
HALF_SPEED_AT = 32
"""Requests in flight at which a batching server takes twice as long for each."""
STARTING_RATE, STARTING_UNTIL_S, SHARES_FROM_S = 40.0, 30.0, 10.0
WAITING_LOAD, WAITING_S, LATE_S = 0.85, 20.0, 0.005
_EVENT_DATA = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
_EVENT = b"%x\r\n%b\r\n" % (len(_EVENT_DATA), _EVENT_DATA)
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_BODY = b'{"choices":[{"message":{"role":"assistant","content":"a"}}]}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
)


class Replica:
    """What it does for a request is in the request's field ``x-do``: a kind, its seconds and a number."""

    def __init__(self, slow_answers: int = 0) -> None:
        self.slow_left = slow_answers
        self.in_flight = 0
        self.began: dict[int, float] = {}
        """Of each request, by its number."""
        self.idle: list[tuple[float, float]] = [(0.0, float("inf"))]
        """From when until when it had nothing to do."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = head.lower()
                length = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                kind, seconds, number = fields.partition(b"x-do: ")[2].partition(b"\r\n")[0].split()
                self._begins(int(number))
                try:
                    await self._answer(writer, kind, float(seconds))
                finally:
                    self._ends()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def _begins(self, number: int) -> None:
        now = asyncio.get_running_loop().time()
        self.began[number] = now
        if not self.in_flight:
            self.idle[-1] = (self.idle[-1][0], now)
        self.in_flight += 1

    def _ends(self) -> None:
        self.in_flight -= 1
        if not self.in_flight:
            self.idle.append((asyncio.get_running_loop().time(), float("inf")))

    async def _answer(self, writer: asyncio.StreamWriter, kind: bytes, seconds: float) -> None:
        if kind == b"slots":
            if self.slow_left > 0:
                self.slow_left -= 1
                seconds = 2.0
            await asyncio.sleep(seconds)
            writer.write(_ANSWER)
            return
        await asyncio.sleep(seconds * self._batch())
        if kind == b"short":
            writer.write(_ANSWER)
            return
        writer.write(_STREAM_HEAD + _EVENT)
        for _ in range(EVENTS):
            await asyncio.sleep(EVENT_S * self._batch())
            writer.write(_EVENT)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _batch(self) -> float:
        return 1 + self.in_flight / HALF_SPEED_AT


class Client:
    """Keeps connections open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.sent_at: list[float] = []
        """Of each request, by its number."""
        self.refused = 0

    async def ask(self, kind: str, seconds: float) -> float:
        """Seconds until the first byte of the answer, which is read to its end."""
        loop = asyncio.get_running_loop()
        number, began = len(self.sent_at), loop.time()
        self.sent_at.append(began)
        body = b'{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":16}'
        if kind == "stream":
            body = body[:-1] + b',"stream":true}'
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nx-do: {kind} {seconds} {number}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if kind == "stream" and b" 200 " in answer:
            await reader.readuntil(b"\n\n")
            first = loop.time() - began
            await reader.readuntil(b"0\r\n\r\n")
        else:
            first = loop.time() - began
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        self.refused += b" 200 " not in answer
        self._idle.append((reader, writer))
        return first

    async def at_random(
        self, rate: float, until_s: float, seconds: Callable[[Random], float], seed: int
    ) -> None:
        """So many a second, whether or not earlier ones were answered (open loop)."""
        loop, rng = asyncio.get_running_loop(), Random(seed)
        begin = at = loop.time()
        async with asyncio.TaskGroup() as sent:
            while (at := at + rng.expovariate(rate)) < begin + until_s:
                await asyncio.sleep(at - loop.time())
                sent.create_task(self.ask("slots", seconds(rng)))


Part = Callable[[Client, list[Replica], int], Awaitable[dict[str, float]]]


async def saturated(client: Client, replicas: list[Replica], seed: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    until = loop.time() + SATURATED_S

    async def go_on() -> None:
        while loop.time() < until:
            await client.ask("short", SHORT_S)

    await asyncio.gather(*(go_on() for _ in range(CLIENTS)))
    found = {"requests": float(len(client.sent_at))}
    found |= shares([len(replica.began) for replica in replicas])
    firsts = await asyncio.gather(*(client.ask("stream", FIRST_S) for _ in range(STREAMS)))
    return found | {"first token, ms: p50": statistics.median(firsts) * 1000, "worst": max(firsts) * 1000}


async def starting(client: Client, replicas: list[Replica], seed: int) -> dict[str, float]:
    begin = asyncio.get_running_loop().time()
    for replica in replicas[1:]:
        replica.slow_left = 3
    await client.at_random(STARTING_RATE, STARTING_UNTIL_S, lambda rng: 0.1, seed)
    return shares([sum(at > begin + SHARES_FROM_S for at in replica.began.values()) for replica in replicas])


async def waiting(client: Client, replicas: list[Replica], seed: int) -> dict[str, float]:
    # While the proxy's worker starts, the first requests wait for that.
    await client.ask("slots", 0.02)
    mean_s = 0.9 * 0.02 + 0.1 * 0.4
    rate = WAITING_LOAD * REPLICAS * SLOTS / mean_s
    await client.at_random(rate, WAITING_S, lambda rng: 0.4 if rng.random() < 0.1 else 0.02, seed)
    late = beside_idle = 0
    for number, sent_at in enumerate(client.sent_at[1:], 1):
        [(at, began)] = [
            (at, replica.began[number]) for at, replica in enumerate(replicas) if number in replica.began
        ]
        if began - sent_at > LATE_S:
            late += 1
            others = [span for other, replica in enumerate(replicas) if other != at for span in replica.idle]
            beside_idle += any(min(end, began) - max(start, sent_at) > LATE_S for start, end in others)
    requests = len(client.sent_at)
    return {
        "requests": requests,
        "late, %": late / requests * 100,
        "beside an idle one, %": beside_idle / requests * 100,
    }


def shares(counts: list[int]) -> dict[str, float]:
    return {f"share {at}, %": count / sum(counts) * 100 for at, count in enumerate(counts)}


PARTS: dict[str, tuple[Part, tuple[int | None, ...]]] = {
    "saturated": (saturated, (BATCHING_LIMIT, None)),
    "starting": (starting, (SLOTS,)),
    "waiting": (waiting, (SLOTS,)),
}
"""And the limits with which each is measured."""


async def measure(port: int, ports: list[int], part: Part, seed: int) -> dict[str, float]:
    replicas = [Replica() for _ in ports]
    async with AsyncExitStack() as stack:
        for replica, own in zip(replicas, ports, strict=True):
            server = await asyncio.start_server(replica.serve, "127.0.0.1", own, backlog=1024)
            await stack.enter_async_context(server)
        client = Client(port)
        found = await part(client, replicas, seed)
        return found | {"refused": client.refused}


def run(part: Part, limit: int | None, workers: int, seed: int) -> dict[str, float]:
    """Behind a proxy of its own."""
    proxy_cpu, own_cpu = two_cpus()
    if own_cpu is not None:
        os.sched_setaffinity(0, {own_cpu})
    port, *ports = free_ports(1 + REPLICAS)
    lines = ["version: 1", "fleets:", "  - name: m", "    protocol: openai"]
    lines += ["    policy: {slow_start_s: 0%s}" % ("" if limit is None else f", max_concurrency: {limit}")]
    lines += ["    replicas:"]
    lines += [f'      - {{name: r{at}, url: "http://127.0.0.1:{own}"}}' for at, own in enumerate(ports)]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "fleets.yaml"
        file.write_text("\n".join(lines))
        command = [sys.executable, "-m", "routing", "--fleets", str(file), "--workers", str(workers)]
        command += ["--listen", f"127.0.0.1:{port}", "--admin", "none", "--min-drain-seconds", "0"]
        command += ["--log-level", "error"]
        with running(command, port, proxy_cpu, log=Path(name) / "log", limit_s=60):
            return asyncio.run(measure(port, ports, part, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="of the proxy")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    python = f"Python {platform.python_version()}"
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, {python}, load {os.getloadavg()[0]:.1f}")
    for name in options.parts or PARTS:
        part, limits = PARTS[name]
        found: dict[int | None, list[dict[str, float]]] = {limit: [] for limit in limits}
        for number in range(options.rounds):
            for limit, rows in found.items():
                rows.append(run(part, limit, options.workers, number))
        for limit, rows in found.items():
            print(f"{name}, {f'limit {limit}' if limit else 'no limit'}:")
            for figure in rows[0]:
                values = [row[figure] for row in rows]
                middle, least, most = statistics.median(values), min(values), max(values)
                print(f"    {figure:24}{middle:10.2f} ({least:.2f} to {most:.2f})")


if __name__ == "__main__":
    main()
