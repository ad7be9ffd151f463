"""Streams of real llama.cpp servers that are killed at random, behind a proxy that continues them.

    python -m tests.benchmarks.continuation [--streams 2000] [--at-once 16] [--servers 6] [--every 2.0]
        [--gaps 30] [--layers 2]

Some servers spell (:mod:`tests.servers.apps.llama_letters`): what any of them says next is known, so that
each client's text is compared with the uninterrupted one, character by character. While ``--streams`` chats
and completions pass, ``--at-once`` at a time, one server is killed and started again every ``--every``
seconds.

Then ``--gaps`` streams pass alone. The server of each is killed in its midst, and the gap that the client
sees is divided by the time to the first token of the same continuation, asked for directly, without a proxy.
Some 7 ms of the gap are the kernel's, which ends a killed process. With more ``--layers`` the model is
slower, and they matter less.

Printed is what came of them. Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.proxy_process import until
from tests.servers.running import APPS, PROBE, Front, ModelServer

LIMIT_S = 60.0
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PROMPT = "Once upon a time"


class Speller(ModelServer):
    layers = 2

    def command(self) -> list[str]:
        app = str(APPS / "llama_letters.py")
        # As if on other machines: what they compute is to delay neither the proxy nor the clients.
        return ["nice", "-n", "5", sys.executable, app, str(self.port), str(self.folder), str(self.layers)]


class Seen:
    """One stream as its client has read it."""

    def __init__(self) -> None:
        self.replica = ""
        self.text = ""
        self.events = 0
        self.roles = self.dones = self.usages = self.seams = 0
        self.usage: dict[str, Any] = {}
        self.ids: set[str] = set()
        self.reason = ""
        self.is_whole = False
        self.error = ""
        self.gap_s = 0.0
        """Between the last token of the first replica and the first one of the next."""
        self.before = ""
        """The text by then."""


async def stream(port: int, path: str, body: dict[str, Any], each: Any = None) -> Seen:
    """``each``: called with what was seen after each token."""
    seen = Seen()
    data = json.dumps(body | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(data)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    last = 0.0
    try:
        async with asyncio.timeout(LIMIT_S):
            writer.write(head.encode() + data)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            if " 200 " not in lines[0] + " ":
                body = b"".join([piece async for piece in _pieces(reader, lines)])
                error = json.loads(body)["error"]
                told = [line for line in lines if line.startswith("x-switchyard-retr")]
                seen.error = f"{lines[0]} {error['code']}: {error['message']} {told}"
                return seen
            seen.replica = next(
                (line[21:].strip() for line in lines if line.startswith("x-switchyard-replica:")), ""
            )
            async for piece in _pieces(reader, lines):
                for event in piece.split(b"\n\n"):
                    if event.startswith(b":"):
                        seen.seams += 1
                        seen.before = seen.text
                    elif event.startswith(b"data: "):
                        now = time.perf_counter()
                        if _take(seen, event[6:]):
                            if seen.seams and not seen.gap_s:
                                seen.gap_s = now - last
                            last = now
                            if each is not None:
                                each(seen)
            seen.is_whole = True
    except (OSError, EOFError, ValueError, TimeoutError) as error:
        seen.error = seen.error or type(error).__name__
    finally:
        writer.close()
    return seen


async def _pieces(reader: asyncio.StreamReader, head: list[str]) -> AsyncIterator[bytes]:
    """The body's chunks; what came to the proxy in one piece has a length."""
    length = next((int(line[15:]) for line in head if line.startswith("content-length:")), None)
    if length is not None:
        yield await reader.readexactly(length)
        return
    while size := int(await reader.readline(), 16):
        chunk = await reader.readexactly(size + 2)
        yield chunk[:-2]


def _take(seen: Seen, data: bytes) -> bool:
    """Whether it is a token."""
    if data == b"[DONE]":
        seen.dones += 1
        return False
    chunk = json.loads(data)
    if "error" in chunk:
        seen.error = chunk["error"]["message"]
        return False
    seen.ids.add(chunk["id"])
    if chunk.get("usage"):
        seen.usages += 1
        seen.usage = chunk["usage"]
    for choice in chunk["choices"]:
        delta = choice.get("delta", {})
        seen.roles += "role" in delta
        seen.reason = choice["finish_reason"] or seen.reason
        text = choice.get("text") or delta.get("content") or ""
        seen.text += text
        return bool(text)
    return False


class Expected:
    """What the model says after each character, learned from one answer."""

    def __init__(self, text: str) -> None:
        self._next = dict(itertools.pairwise(text))

    def after(self, letter: str, count: int) -> str:
        said = ""
        while len(said) < count:
            letter = self._next[letter]
            said += letter
        return said


def request(rng: random.Random, tokens: int) -> tuple[str, dict[str, Any], str]:
    """Path, body, and the last character before the answer."""
    common = {"model": "tiny-llm", "temperature": 0, "max_tokens": tokens, "cache_prompt": False}
    if rng.random() < 0.5:
        return CHAT, common | {"messages": [{"role": "user", "content": PROMPT}]}, ":"
    letter = rng.choice(LETTERS)
    return COMPLETION, common | {"prompt": PROMPT + letter}, letter


def judged(seen: Seen, path: str, expected: str, prompt_tokens: int) -> str:
    """What is wrong with it, in one word; empty: nothing."""
    if seen.error or not seen.is_whole:
        return "broken"
    if seen.text != expected:
        return "text"
    if seen.dones != 1 or seen.usages != 1 or len(seen.ids) != 1 or seen.roles != (path == CHAT):
        return "form"
    usage = (prompt_tokens, len(expected), prompt_tokens + len(expected))
    told = tuple(seen.usage[f"{name}_tokens"] for name in ("prompt", "completion", "total"))
    return "" if told == usage and seen.reason == "length" else "usage"


async def killing(servers: list[Speller], every_s: float, rng: random.Random, killed: list[str]) -> None:
    while True:
        await asyncio.sleep(every_s * rng.uniform(0.5, 1.5))
        server = rng.choice(servers)
        server.stop()
        server.start()
        killed.append(server.name)


async def many(front: Front, servers: list[Speller], options: argparse.Namespace, expected: Expected) -> None:
    rng = random.Random(options.seed)
    killed: list[str] = []
    left = options.streams
    wrong: Counter[str] = Counter()
    words: Counter[str] = Counter()
    seams: Counter[int] = Counter()
    interrupted = 0

    async def client() -> None:
        nonlocal left, interrupted
        while left > 0:
            left -= 1
            tokens = rng.randrange(100, 400)
            path, body, letter = request(rng, tokens)
            seen = await stream(front.proxy.port, path, body)
            prompt_tokens = PROMPT_TOKENS[path]
            why = judged(seen, path, expected.after(letter, tokens), prompt_tokens)
            seams[seen.seams] += 1
            interrupted += bool(seen.seams or why)
            if why:
                wrong[why] += 1
                words[seen.error or f"{why} after {seen.seams} seams"] += 1

    killer = asyncio.create_task(killing(servers, options.every, rng, killed))
    began = time.monotonic()
    await asyncio.gather(*(client() for _ in range(options.at_once)))
    killer.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await killer
    whole = options.streams - sum(wrong.values())
    print(f"{options.streams} streams in {time.monotonic() - began:.0f} s, {len(killed)} kills")
    print(f"broken off and continued, by seams: {dict(sorted(seams.items()))}; interrupted {interrupted}")
    print(f"whole and right: {whole} ({100 * whole / options.streams:.2f} %); wrong: {dict(wrong)}")
    for said, count in words.most_common():
        print(f"  {count} x {said}")


async def all_back(front: Front, servers: list[Speller]) -> None:
    """A replica that was ejected needs requests to come back."""
    for server in servers:
        server.until_it_says("/health", "200")
    end = time.monotonic() + LIMIT_S
    while not all(row["eligible"] for row in front.proxy.replicas("tiny-llm").values()):
        assert time.monotonic() < end, front.proxy.replicas("tiny-llm")
        await stream(front.proxy.port, COMPLETION, {"model": "tiny-llm", "prompt": "a", "max_tokens": 2})


PROMPT_TOKENS: dict[str, int] = {}


async def gaps(front: Front, servers: list[Speller], options: argparse.Namespace, expected: Expected) -> None:
    rng = random.Random(options.seed)
    ratios, seen_ms, first_ms = [], [], []
    by_name = {server.name: server for server in servers}
    for _ in range(options.gaps):
        await all_back(front, servers)
        tokens = 400
        at = rng.randrange(50, 300)
        path, body, _ = request(rng, tokens)

        def each(seen: Seen, at: int = at) -> None:
            if len(seen.text) >= at and not seen.seams and by_name[seen.replica].process.poll() is None:  # type: ignore[union-attr]
                by_name[seen.replica].process.kill()  # type: ignore[union-attr]

        seen = await stream(front.proxy.port, path, body, each)
        if not seen.seams:
            continue
        lost = by_name[seen.replica]
        lost.stop()
        other = next(server for server in servers if server is not lost)
        again = dict(body)
        if path == CHAT:
            again["messages"] = [*body["messages"], {"role": "assistant", "content": seen.before}]
        else:
            again["prompt"] = body["prompt"] + seen.before
        times = []
        for _ in range(5):
            began = time.perf_counter()
            firsts: list[float] = []

            def first(one: Seen, firsts: list[float] = firsts) -> None:
                if not firsts:
                    firsts.append(time.perf_counter())

            await stream(other.port, path, again | {"max_tokens": 2}, first)
            times.append(firsts[0] - began)
        if options.verbose:
            print(f"gap {1000 * seen.gap_s:.1f} ms, alone", *(f"{1000 * one:.1f}" for one in times))
        usual = statistics.median(times)
        ratios.append(seen.gap_s / usual)
        seen_ms.append(1000 * seen.gap_s)
        first_ms.append(1000 * usual)
        lost.start()
    print(
        f"{len(ratios)} gaps: median {statistics.median(seen_ms):.1f} ms, a first token "
        f"{statistics.median(first_ms):.1f} ms; ratio: median {statistics.median(ratios):.2f}, "
        f"highest {max(ratios):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two kills, on average")
    parser.add_argument("--gaps", type=int, default=30)
    parser.add_argument("--servers", type=int, default=6)
    parser.add_argument("--layers", type=int, default=2, help="of the model: how slow it is")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print each gap")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as life:
        folder = Path(name)
        Speller.layers = options.layers
        servers = [Speller(f"s{number}", folder) for number in range(options.servers)]
        for server in servers:
            server.start()
            life.callback(server.stop)
            server.until_it_says("/health", "200")
        text = servers[0].ask(CHAT, {"max_tokens": 200, "messages": [{"role": "user", "content": "x"}]}).body
        said = json.loads(text)["choices"][0]["message"]["content"]
        expected = Expected(":" + said)
        for path, body in (
            (CHAT, {"messages": [{"role": "user", "content": PROMPT}]}),
            (COMPLETION, {"prompt": PROMPT + "a"}),
        ):
            PROMPT_TOKENS[path] = json.loads(servers[0].ask(path, body | {"max_tokens": 1}).body)["usage"][
                "prompt_tokens"
            ]
        fleet = {
            "name": "tiny-llm",
            "protocol": "openai",
            "policy": {
                "strategy": "round_robin",
                "slow_start_s": 0,
                "continuation": "auto",
                "ejection": {"base_s": 0.5, "max_ejected_percent": 100},
                "retries": {"budget_percent": 100},
            },
            "probe": {"preset": "llama.cpp", **PROBE},
            "replicas": [{"name": server.name, "url": server.url} for server in servers],
        }
        front = Front(folder, [fleet])
        life.callback(front.proxy.stop)
        until(
            lambda: all(
                row["continuation"] == "continues chats and completions"
                for row in front.proxy.replicas("tiny-llm").values()
            ),
            "all trials have passed",
        )
        if options.streams:
            asyncio.run(many(front, servers, options, expected))
        if options.gaps:
            asyncio.run(gaps(front, servers, options, expected))
        for line in front.proxy.admin("/metrics")[1].splitlines():
            if (
                "continued_total" in line or "queued_total" in line or "retries_total" in line
            ) and not line.startswith("#"):
                print(line)


if __name__ == "__main__":
    main()
