"""One of four replicas falls silent while its probes pass: how long streams then take to begin.

    python -m tests.benchmarks.silent [--limits off,1.0,auto] [--kinds mute,head] [--rate 25] [--before 30]
        [--after 60] [--usual 0.2] [--strategy NAME] [--seed 1]

A real proxy with one worker, run from a fleet file, probes four servers. Streams come at random times, so
many a second. A server begins each after a lognormal time whose median is ``--usual``, and then sends a token
every 20 ms. After ``--before`` seconds one of them goes on accepting requests and passing its probes, and
answers none: not a byte (``mute``), or a head and an event that names the role, and nothing after it
(``head``). Requests that it had by then are finished.

Printed is, for each limit and kind, the time to the first token as clients saw it: of the time before, and of
the time with the silent replica; how many requests the servers had beyond those of the clients; and how many
the silent one had. Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvloop

from tests.ports import free_port
from tests.proxy_process import Proxy

TOKENS = 15
BETWEEN_S = 0.02
SIGMA = 0.35
"""Of the logarithm of the time to a first token."""
LIMIT_S = 120.0
BODY = json.dumps(
    {"model": "f", "stream": True, "max_tokens": TOKENS, "messages": [{"role": "user", "content": "x" * 400}]}
).encode()
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(BODY), BODY)
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FLEET = """version: 1
fleets:
  - name: f
    protocol: openai
    default: true
    probe: {{preset: http, path: /health, period_s: 1}}
    policy: {{strategy: {strategy}, slow_start_s: 0, first_token_limit_s: {limit}}}
    replicas:
{replicas}
"""


def event(content: str) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}
    data = b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


class Server:
    """A model server of this process."""

    def __init__(self, name: str, rng: random.Random, usual_s: float) -> None:
        self.name = name
        self.port = free_port()
        self.silent = ""
        """``mute`` or ``head``; empty: it answers."""
        self.asked = 0
        self._rng = rng
        self._usual_s = usual_s
        self._server: asyncio.Server

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    continue
                await reader.readexactly(len(BODY))
                self.asked += 1
                await self._answer(reader, writer)
        except (OSError, EOFError, RuntimeError, asyncio.CancelledError):
            pass  # the proxy has given up, or the run is over; uvloop's error of a closed connection
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.silent:
            if self.silent == "head":
                writer.write(HEAD + event(""))
            await reader.read(1)  # until the proxy gives up
            raise EOFError
        await asyncio.sleep(self._usual_s * self._rng.lognormvariate(0.0, SIGMA))
        writer.write(HEAD + event(""))
        for _ in range(TOKENS):
            writer.write(event("x"))
            await asyncio.sleep(BETWEEN_S)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


class Seen:
    """What clients saw in one part of the run."""

    def __init__(self) -> None:
        self.first_tokens: list[float] = []
        self.statuses: Counter[str] = Counter()


async def ask(port: int, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(LIMIT_S):
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " in head[:15]:
                await reader.readuntil(b'"content": "x"')
                seen.first_tokens.append(time.perf_counter() - began)
            rest = await reader.read(-1)
            whole = rest.endswith(b"0\r\n\r\n") and b"[DONE]" in rest
            seen.statuses["whole" if whole else head[9:12].decode()] += 1
    except (OSError, EOFError, TimeoutError) as error:
        seen.statuses[type(error).__name__] += 1
        seen.first_tokens.append(time.perf_counter() - began)
    finally:
        writer.close()


async def load(port: int, rate: float, lasts_s: float, rng: random.Random, seen: Seen) -> int:
    """How many requests there were."""
    asking: set[asyncio.Task[None]] = set()
    now = begin = time.perf_counter()
    while (now := now + rng.expovariate(rate)) < begin + lasts_s:
        await asyncio.sleep(max(0.0, now - time.perf_counter()))
        asking.add(asyncio.create_task(ask(port, seen)))
    await asyncio.gather(*asking)
    return len(asking)


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


def told(values: list[float]) -> str:
    return ", ".join(f"p{100 * q:g} {quantile(values, q):.2f} s" for q in (0.5, 0.95, 0.99, 1.0))


def second_attempts(proxy: Proxy) -> str:
    lines = proxy.admin("/metrics")[1].split("\n")
    names = (
        "switchyard_second_attempts_total{",
        "switchyard_not_sent_twice_total{",
        "switchyard_retries_total{",
    )
    found = [line.partition("_total{")[2] for line in lines if line.startswith(names)]
    return "; ".join(one.replace('fleet="f",', "") for one in found if not one.endswith(" 0"))


async def run(options: argparse.Namespace, limit: str, kind: str) -> None:
    rng = random.Random(options.seed)
    servers = [Server(f"r{number}", rng, options.usual) for number in range(4)]
    for server in servers:
        await server.start()
    before, after = Seen(), Seen()
    with tempfile.TemporaryDirectory() as folder:
        listed = "\n".join(
            f'      - {{name: {one.name}, url: "http://127.0.0.1:{one.port}"}}' for one in servers
        )
        path = Path(folder) / "fleets.yaml"
        path.write_text(FLEET.format(strategy=options.strategy, limit=limit, replicas=listed))
        proxy = Proxy(Path(folder), "--fleets", str(path), "--workers", "1", "--probe")
        try:
            await asyncio.to_thread(proxy.ready)
            await load(proxy.port, options.rate, options.before, rng, before)
            asked, silent_asked = sum(one.asked for one in servers), servers[0].asked
            servers[0].silent = kind
            count = await load(proxy.port, options.rate, options.after, rng, after)
            extra = sum(one.asked for one in servers) - asked - count
            what = await asyncio.to_thread(second_attempts, proxy)
        finally:
            proxy.stop()
    first, usual = after.first_tokens, statistics.median(before.first_tokens)
    print(f"limit {limit}, {kind}:")
    print(f"  before: {told(before.first_tokens)}; {dict(before.statuses)}")
    print(f"  after:  {told(first)}; {dict(after.statuses)}")
    print(f"  p99 less the limit, in usual first tokens: {_less(limit, quantile(first, 0.99), usual)}")
    print(f"  {count} requests, {100 * extra / count:.1f} % extra ({extra});", end=" ")
    print(f"{servers[0].asked - silent_asked} to the silent replica; {what}", flush=True)


def _less(limit: str, p99_s: float, usual_s: float) -> str:
    return "–" if limit in ("off", "auto") else f"{(p99_s - float(limit)) / usual_s:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--limits", default="off,1.0,auto")
    parser.add_argument("--kinds", default="mute,head")
    parser.add_argument("--rate", type=float, default=25.0)
    parser.add_argument("--before", type=float, default=30.0)
    parser.add_argument("--after", type=float, default=60.0)
    parser.add_argument("--usual", type=float, default=0.2)
    parser.add_argument("--strategy", default="least_expected_work")
    parser.add_argument("--seed", type=int, default=1)
    options: Any = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, strategy {options.strategy}")
    print(f"{options.rate:g} streams a second, usual first token {options.usual:g} s")
    for limit in options.limits.split(","):
        for kind in options.kinds.split(","):
            uvloop.run(run(options, limit, kind))


if __name__ == "__main__":
    main()
