"""Sends requests open-loop: each at its own time, whether or not those before have been answered.

Latency is measured from the intended time of sending, so a proxy that falls behind cannot hide it.
What would go over the bound of open requests is not sent and counted as skipped.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from examples.client.requests import Prepared, chat_or_completion, digit_pictures, rows
from examples.client.trace import MEAN_GAP_S, Arrival
from examples.output import say

REPORT_EVERY_S = 30.0
TIMEOUT_S = 120.0


class Client:
    """``rate``: requests a second to both fleets together; ``most_open``: bound of open requests;
    ``key_file``: of a client key, which may come, change and go while requests are sent."""

    def __init__(
        self, proxy_url: str, rate: float, most_open: int, seed: int, key_file: Path | None = None
    ) -> None:
        self.proxy_url = proxy_url.rstrip("/")
        self.stretch = 1 / (rate * MEAN_GAP_S)
        self.most_open = most_open
        self.key_file = key_file
        self.rng = random.Random(seed)
        self.pictures = digit_pictures()
        self.counts: Counter[str] = Counter()
        self.latencies_s: list[float] = []
        self.last_refusal = ""
        self.open: set[asyncio.Task[None]] = set()

    async def run(self, arrivals: Iterator[Arrival]) -> None:
        """Send until cancelled or the arrivals end, then wait for the answers."""
        limits = aiohttp.ClientTimeout(total=TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=self.most_open)
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            reporter = asyncio.create_task(self.report_now_and_then())
            try:
                await self.send_all(session, arrivals)
                await asyncio.gather(*self.open)
            finally:
                reporter.cancel()
                for task in self.open:
                    task.cancel()
        say(self.summary())

    async def send_all(self, session: aiohttp.ClientSession, arrivals: Iterator[Arrival]) -> None:
        due = time.monotonic()
        for arrival in arrivals:
            due += arrival.gap_s * self.stretch
            await asyncio.sleep(due - time.monotonic())
            if len(self.open) >= self.most_open:
                self.counts["skipped"] += 1
                continue
            task = asyncio.create_task(self.exchange(session, self.prepare(arrival), due))
            self.open.add(task)
            task.add_done_callback(self.open.discard)

    def prepare(self, arrival: Arrival) -> Prepared:
        if self.rng.random() < 0.5:
            return rows(self.rng, self.pictures, arrival.context_tokens)
        return chat_or_completion(self.rng, arrival.context_tokens, arrival.generated_tokens)

    async def exchange(self, session: aiohttp.ClientSession, request: Prepared, due: float) -> None:
        """One request and its whole answer, counted by its outcome."""
        headers = {"Content-Type": "application/json", **self.credential()}
        try:
            url = self.proxy_url + request.path
            async with session.post(url, data=request.body, headers=headers) as response:
                outcome = str(response.status)
                if response.status == 200:
                    async for _ in response.content.iter_any():
                        pass
                else:
                    self.last_refusal = (await response.text())[:300]
        except TimeoutError:
            outcome = "timeout"
        except (aiohttp.ClientError, OSError) as error:
            outcome = type(error).__name__
        self.counts[outcome] += 1
        if outcome == "200":
            self.latencies_s.append(time.monotonic() - due)

    def credential(self) -> dict[str, str]:
        """The field that carries the key; read anew for each request, of which there are few."""
        if self.key_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {self.key_file.read_text().strip()}"}
        except FileNotFoundError:
            return {}

    async def report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            say(self.summary())

    def summary(self) -> str:
        """One line about everything since the last one; starts counting anew."""
        counts = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(self.counts.items()))
        ordered = sorted(self.latencies_s)
        middle = f"p50 {ordered[len(ordered) // 2] * 1000:.0f} ms" if ordered else "no answers"
        refusal = f"; last refusal: {self.last_refusal}" if self.last_refusal else ""
        self.counts.clear()
        self.latencies_s.clear()
        self.last_refusal = ""
        return f"{counts or 'nothing sent'}; {middle}; {len(self.open)} open{refusal}"
