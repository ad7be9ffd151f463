"""Replicas that are drained with ``move``, of real llama.cpp servers: when the last stream has gone.

    python -m tests.benchmarks.moving [--streams 50] [--servers 4] [--layers 4] [--rounds 3] [--workers 2]
        [--paced]

The servers spell (:mod:`tests.servers.apps.llama_letters`): what any of them says next is known, so that each
client's text is compared with the uninterrupted one, character by character. The proxy has its table from
Redis, as behind a control plane. All streams begin at one replica (the others drain meanwhile). When each
has said twenty characters, the others are activated, and that one is drained with ``move``: from the
newer table's publication the time is taken until the last stream has gone from there, as the proxy says, and
until the last one has its next character. Rounds:

- ``alone``: the other replicas have nothing to do.
- ``half full``: each of the others is so by streams of its own, to half of its ``max_concurrency``.
- ``two at once``: two replicas, of one host say, are drained by one table.
- ``half stays``: every second stream asks for log probabilities, and cannot be continued.

On a machine with few processors the servers' work delays all else, and streams end before all have begun.
``--paced``: they are such that compute nothing (:mod:`tests.benchmarks.paced_speller`).

Printed is what came of them. Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis
from msgspec.structs import replace

from routing.contract.policy import Policy, Timeouts
from routing.contract.probe import Probe
from routing.contract.table import FleetSnapshot, ReplicaSpec
from tests.benchmarks import continuation
from tests.benchmarks.continuation import CHAT, COMPLETION, PROMPT, Expected, Seen, Speller, stream
from tests.conftest import RedisServer
from tests.proxy_process import Proxy, Publisher, until
from tests.servers.running import ModelServer

FLEET = "tiny-llm"
TOKENS = 900
BEGUN = 20
LIMIT_S = 180.0
SLOTS = 128


class WideSpeller(Speller):
    """With room for all streams."""

    def command(self) -> list[str]:
        return [*super().command(), str(SLOTS)]


async def come_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


def difference(text: str, expected: str) -> str:
    """Where a text is another one, in words."""
    pairs = zip(text, expected, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(text), len(expected)))
    said, due = text[at - 5 : at + 10], expected[at - 5 : at + 10]
    return f"character {at}: {said!r} instead of {due!r}, {len(text)} instead of {len(expected)} in all"


class PacedSpeller(ModelServer):
    """One whose tokens come at a pace."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.benchmarks.paced_speller", str(self.port)]


class Table:
    """What the proxy routes from."""

    def __init__(self, publisher: Publisher, servers: Sequence[ModelServer], limit: int) -> None:
        self._publisher = publisher
        self._version = 1
        self._snapshot = FleetSnapshot(
            epoch=1,
            version=1,
            revision=1,
            name=FLEET,
            protocol="openai",
            policy=Policy(
                strategy="round_robin",
                slow_start_s=0,
                continuation="auto",
                max_concurrency=limit,
                timeouts=Timeouts(connect_s=10),
            ),
            probe=Probe(preset="llama.cpp"),
            replicas=[ReplicaSpec(uid=f"uid-{one.name}", name=one.name, url=one.url) for one in servers],
        )
        publisher.manifest(1, fleets={FLEET: 1}, default=FLEET)
        publisher.fleet(self._snapshot)

    def publish(self, draining: list[str], move: bool = False) -> None:
        self._version += 1
        replicas = [
            replace(one, admin_state="draining" if one.name in draining else "active", move=move)
            for one in self._snapshot.replicas
        ]
        self._publisher.fleet(replace(self._snapshot, version=self._version, replicas=replicas))

    def applied(self, workers: int) -> bool:
        return self._publisher.applied(f"1:{self._version}", workers, FLEET)


class Told(Seen):
    """A stream, and when it has had each part of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.expected = ""
        self.stays = False
        self.moved_at = 0.0


class Bench:
    def __init__(
        self, options: argparse.Namespace, proxy: Proxy, table: Table, names: list[str], expected: Expected
    ) -> None:
        self.options = options
        self.proxy = proxy
        self.table = table
        self.names = names
        self.expected = expected

    async def only(self, names: list[str]) -> None:
        """From now on new requests go to these alone."""
        self.table.publish([name for name in self.names if name not in names])
        await come_true(lambda: self.table.applied(self.options.workers))

    def begin(self, number: int, stays: bool = False) -> tuple[asyncio.Task[Seen], Told]:
        told = Told()
        body: dict[str, Any] = {"model": FLEET, "temperature": 0, "max_tokens": TOKENS, "cache_prompt": False}
        path = CHAT if number % 2 else COMPLETION
        body |= {"messages": [{"role": "user", "content": PROMPT}]} if path == CHAT else {"prompt": PROMPT}
        if stays:
            body["logprobs"] = True if path == CHAT else 1
        told.expected = self.expected.after(":" if path == CHAT else PROMPT[-1], TOKENS)
        told.stays = stays

        def each(seen: Seen) -> None:
            told.text = seen.text
            if seen.seams and not told.moved_at:
                told.moved_at = time.monotonic()

        return asyncio.create_task(stream(self.proxy.port, path, body, each)), told

    async def all_have(self, told: list[Told], characters: int) -> None:
        await come_true(lambda: all(len(one.text) >= characters for one in told))

    def in_flight(self, names: list[str]) -> int:
        rows = self.proxy.replicas(FLEET)
        return sum(rows[name]["in_flight"] for name in names)

    async def round(self, away: list[str], busy: int = 0, staying: int = 0) -> dict[str, float]:
        """``busy``: streams of each other replica; ``staying``: how many of those here cannot be moved."""
        options = self.options
        others = [name for name in self.names if name not in away]
        tasks, more = [], []
        if busy:
            await self.only(others)
            more = [self.begin(number) for number in range(busy * len(others))]
            await self.all_have([told for _, told in more], 1)
        told: list[Told] = []
        for name in away:
            await self.only([name])
            begun = [self.begin(number, stays=number < staying) for number in range(options.streams)]
            tasks += [task for task, _ in begun]
            told += [one for _, one in begun]
            await self.all_have(told, BEGUN)
        room = sum(row["in_flight"] for row in self.proxy.replicas(FLEET).values())
        began = time.monotonic()
        self.table.publish(away, move=True)
        gone_s = 0.0
        while True:
            left = await asyncio.to_thread(self.in_flight, away)
            gone_s = time.monotonic() - began
            if left <= staying * len(away) or gone_s > LIMIT_S:
                break
            await asyncio.sleep(0.01)
        seen = await asyncio.gather(*tasks, *(task for task, _ in more))
        every = told + [one for _, one in more]
        broken = sum(not one.is_whole or bool(one.error) for one in seen)
        wrong = sum(one.text != known.expected for one, known in zip(seen, every, strict=True))
        moved = [one for one in told if one.moved_at]
        gaps = [1000 * one.gap_s for one in seen if one.seams]
        for one, known in zip(seen, every, strict=True):
            if not one.error and one.text != known.expected:
                seam = f"seam after {len(one.before)} of {one.seams}, usage {one.usage}"
                print(f"  {difference(one.text, known.expected)}, {seam}")
        for words, number in Counter(one.error for one in seen if one.error).most_common():
            print(f"  {number} x {words}")
        return {
            "load of this machine": os.getloadavg()[0],
            "in flight": room,
            "moved": len(moved),
            "stayed": len(told) - len(moved),
            "last gone, s": gone_s,
            "last goes on, s": max((one.moved_at - began for one in moved), default=0.0),
            "gap, ms": statistics.median(gaps) if gaps else 0.0,
            "longest gap, ms": max(gaps, default=0.0),
            "broken": broken,
            "other text": wrong,
        }

    async def run(self) -> None:
        count, names = self.options.streams, self.names
        rounds = {
            "alone": ([names[0]], 0, 0),
            "half full": ([names[0]], self.options.limit // 2, 0),
            "two at once": (names[:2], 0, 0),
            "half stays": ([names[0]], 0, count // 2),
        }
        for words, (away, busy, staying) in rounds.items():
            if self.options.only and words not in self.options.only:
                continue
            for _ in range(self.options.rounds):
                found = await self.round(away, busy, staying)
                print(
                    f"{words}: " + ", ".join(f"{name} {value:.4g}" for name, value in found.items()),
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=50, help="at each replica that is drained")
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4, help="of the model: how slow it is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=64, help="max_concurrency of each replica")
    parser.add_argument("--paced", action="store_true", help="servers that compute nothing")
    parser.add_argument("--only", action="append", help="this kind of round")
    options = parser.parse_args()
    continuation.LIMIT_S = LIMIT_S
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as name, contextlib.ExitStack() as life:
        folder = Path(name)
        Speller.layers = options.layers
        kind = PacedSpeller if options.paced else WideSpeller
        servers: list[ModelServer] = [kind(f"s{number}", folder) for number in range(options.servers)]
        for server in servers:
            server.start()
            life.callback(server.stop)
            server.until_it_says("/health", "200")
        text = servers[0].ask(CHAT, {"max_tokens": 200, "messages": [{"role": "user", "content": "x"}]}).body
        expected = Expected(":" + json.loads(text)["choices"][0]["message"]["content"])
        server_of_redis = RedisServer(folder / "redis.sock")
        server_of_redis.start()
        life.callback(server_of_redis.stop)
        publisher = Publisher(redis.Redis.from_url(server_of_redis.url))
        table = Table(publisher, servers, options.limit)
        proxy = Proxy(folder, "--redis", server_of_redis.url, "--workers", str(options.workers)).ready()
        life.callback(proxy.stop)
        until(
            lambda: all(
                row["continuation"] == "continues chats and completions"
                for row in proxy.replicas(FLEET).values()
            ),
            "all trials have passed",
        )
        bench = Bench(options, proxy, table, [server.name for server in servers], expected)
        asyncio.run(bench.run())
        for line in proxy.admin("/metrics")[1].splitlines():
            counted = ("moved", "continued", "queued_total", "retries_total", "errors_total")
            if any(word in line for word in counted) and not line.startswith("#"):
                print(line)


if __name__ == "__main__":
    sys.exit(main())
