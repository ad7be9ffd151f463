"""Counts and percentiles of a proxy with two workers, one of them killed, against those of the raw logs.

    python -m tests.benchmarks.exact_totals [--requests 100000] [--clients 96]

Half of the requests are streams of eight tokens, half are plain, of lengths drawn at random; one in fifty is
answered with 500. When half of them are answered, one worker is killed with SIGKILL. Compared are

- what clients have got whole, the master's totals, and what the control plane makes of the workers' reports
  in Redis: requests served, errors, tokens, streams, and those within ``slo.first_token_s``;
- percentiles of the reports' sketches, and those of the access log's lines, computed exactly.

A stream that had begun at the killed worker counts for the first token although it broke off, and lines that
the worker had not written yet are missing in the log. Nothing passes or fails.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import redis

from controlplane.telemetry.deltas import between
from controlplane.telemetry.report_reader import read
from routing.contract.ended_requests import EndedRequests
from routing.contract.policy import Policy, Retries, Slo
from routing.contract.sketch import Sketch
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.contract.telemetry import WorkerReport
from tests.benchmarks.prefix_hosts import redis_server
from tests.benchmarks.processes import circumstances
from tests.proxy_process import Proxy, Publisher

TOKENS = 8
PROMPT = 40
FIRST_TOKEN_S = 0.05
STREAMS, PLAIN = "/v1/chat/completions", "/v1/completions"
USAGE = {"prompt_tokens": PROMPT, "total_tokens": PROMPT + TOKENS, "completion_tokens": TOKENS}
POLL_S = 0.3


class Replica(asyncio.Protocol):
    """Answers after a while of its own choice; a stream comes in two pieces."""

    rng = random.Random(7)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, body = self._held.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if found and (length is None or len(body) >= int(length[1])):
            self._held = b""
            asyncio.get_running_loop().call_later(self.rng.lognormvariate(-3.5, 0.6), self._answer, body)

    def _answer(self, body: bytes) -> None:
        if self.rng.random() < 0.02:
            self._transport.write(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}")
        elif b'"stream":true' in body:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            self._transport.write(head + _chunk(_event("t")))
            asyncio.get_running_loop().call_later(self.rng.lognormvariate(-4.5, 0.5), self._end)
        else:
            answer = json.dumps({"choices": [], "usage": USAGE}).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))

    def _end(self) -> None:
        last = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps({"choices": [], "usage": USAGE}).encode()
        rest = b"".join(_chunk(_event("t")) for _ in range(TOKENS - 2))
        self._transport.write(rest + _chunk(_event("t", "stop") + last) + b"0\r\n\r\n")


def _event(content: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Clients:
    """Each asks on a connection of its own, one request after the other."""

    def __init__(self, port: int, requests: int) -> None:
        self._port = port
        self._left = requests
        self.got: Counter[str] = Counter()
        """``plain``, ``streams`` and ``errors`` that came whole, and ``broken`` ones."""

    @property
    def done(self) -> int:
        return self.got.total()

    async def ask(self, rng: random.Random) -> None:
        while self._left > 0:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                while self._left > 0:
                    self._left -= 1
                    self.got[await _one(reader, writer, rng.random() < 0.5)] += 1
                writer.close()
            except (OSError, EOFError):
                self.got["broken"] += 1


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, streamed: bool) -> str:
    body = b'{"model":"llm","stream":%b,"messages":[]}' % (b"true" if streamed else b"false")
    writer.write(
        b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % ((STREAMS if streamed else PLAIN).encode(), len(body), body)
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        await reader.readuntil(b"\r\n0\r\n\r\n")
    else:
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
    if not head.startswith(b"http/1.1 200"):
        return "errors"
    return "streams" if streamed else "plain"


class Told:
    """What the control plane makes of the reports."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._known: dict[str, WorkerReport] = {}
        self.ended = EndedRequests()
        self.latency, self.first_token = Sketch(), Sketch()

    def read(self) -> None:
        for each in read(self._client).reports:
            report = each.report
            known = self._known.get(report.worker)
            if known is not None and known.sequence == report.sequence:
                continue
            self._known[report.worker] = report
            fleet = between(known, report).fleets.get("llm")
            if fleet is not None:
                self.ended = self.ended.plus(fleet.ended)
                self.latency.add_counts(fleet.latency)
                self.first_token.add_counts(fleet.first_token)


async def measure(requests: int, clients: int, folder: Path, url: str, stack: ExitStack) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Replica, "127.0.0.1", 0) for _ in range(4)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    log = folder / "access.log"
    client = stack.enter_context(redis.Redis.from_url(url))
    publish(Publisher(client), ports)
    proxy = Proxy(folder, "--redis", url, "--workers", "2", "--access-log", str(log), "--log-format", "json")
    stack.callback(proxy.stop)
    await asyncio.to_thread(proxy.ready)
    victim = proxy.workers()[0]
    told, asking = Told(client), Clients(proxy.port, requests)
    told.read()
    began = time.monotonic()
    tasks = [loop.create_task(asking.ask(random.Random(at))) for at in range(clients)]
    killed = False
    while not all(task.done() for task in tasks):
        await asyncio.sleep(POLL_S)
        told.read()
        if not killed and asking.done > requests / 2:
            killed = True
            os.kill(victim, signal.SIGKILL)
    took = time.monotonic() - began
    await asyncio.sleep(3.0)  # the last reports
    told.read()
    print(f"{requests} requests of {clients} clients in {took:.0f} s, one of 2 workers killed")
    print(circumstances())
    counts(asking.got, told.ended, await asyncio.to_thread(proxy.admin, "/metrics"))
    percentiles(told, log)


def publish(publisher: Publisher, ports: list[int]) -> None:
    policy = Policy(
        strategy="round_robin",
        slow_start_s=0,
        slo=Slo(first_token_s=FIRST_TOKEN_S),
        retries=Retries(statuses=[]),
    )
    replicas = [
        ReplicaSpec(uid=f"u{at}", name=f"r{at}", url=f"http://127.0.0.1:{port}")
        for at, port in enumerate(ports)
    ]
    publisher.fleet(
        FleetSnapshot(
            epoch=1, version=1, revision=1, name="llm", protocol="openai", policy=policy, replicas=replicas
        )
    )
    publisher._store("sy:manifest", Manifest(epoch=1, version=1, fleets={"llm": 1}, default="llm"), "*")


def counts(got: Counter[str], ended: EndedRequests, page: tuple[int, str]) -> None:
    served = got["plain"] + got["streams"]
    found = dict(re.findall(r'^(switchyard_\w+){fleet="llm"(?:,\w+="\w+")?} (\S+)$', page[1], re.M))
    samples = {
        (name, label): float(value)
        for name, label, value in re.findall(
            r'^(switchyard_\w+){fleet="llm",\w+="(\w+)"} (\S+)$', page[1], re.M
        )
    }
    print(f"{'':24}{'clients':>10}{'master':>10}{'reports':>10}   (broken off at clients: {got['broken']})")
    for words, at_clients, at_master, reported in (
        ("served", served, samples[("switchyard_ended_requests_total", "served")], ended.served),
        ("errors", got["errors"], float(found["switchyard_errors_total"]), ended.error_count),
        (
            "output tokens",
            TOKENS * served,
            float(found["switchyard_output_tokens_total"]),
            ended.output_tokens,
        ),
        ("input tokens", PROMPT * served, float(found["switchyard_input_tokens_total"]), ended.input_tokens),
        (
            "streams",
            got["streams"],
            samples[("switchyard_objective_requests_total", "first_token")],
            ended.streams,
        ),
    ):
        print(f"{words:24}{at_clients:>10}{at_master:>10.0f}{reported:>10}")


def percentiles(told: Told, log: Path) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    plain = sorted(line["ms"] / 1000 for line in lines if line["outcome"] == "answered")
    within = told.ended.streams - told.ended.late_streams
    print(f"streams within {FIRST_TOKEN_S:g} s: {within} of {told.ended.streams}")
    # A stream's head is held back until there is content: its first byte is the first token.
    firsts = sorted(
        line["first_byte_ms"] / 1000 for line in lines if line["status"] == 200 and line["path"] == STREAMS
    )
    good = sum(first <= FIRST_TOKEN_S for first in firsts)
    print(f"by the {len(lines)} lines of the access log: {good} of {len(firsts)}")
    print(f"{'':14}{'quantile':>9}{'exact ms':>11}{'sketch ms':>11}{'off by':>9}")
    for name, exact, sketch in (("latency", plain, told.latency), ("first token", firsts, told.first_token)):
        for q in (0.5, 0.95, 0.99):
            seconds, told_s = exact[int(q * (len(exact) - 1))], sketch.quantile(q) or 0.0
            off = 100 * (told_s / seconds - 1)
            print(f"{name:14}{q:>9}{1000 * seconds:>11.3f}{1000 * told_s:>11.3f}{off:>8.2f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=96)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(redis_server(folder / "redis"))
        asyncio.run(measure(options.requests, options.clients, folder, url, stack))


if __name__ == "__main__":
    main()
