"""An hour of faults: does anything grow, and what do clients see? (docs/reliability.md)

    python -m tests.benchmarks.endurance [--minutes 60] [--rate 200] [--streams 36] [--seed 1] [--folder DIR]

All of Switchyard with one fleet of four replicas (:mod:`tests.faults.whole_stack`) is asked by clients of all
four kinds, with a client key, and by long streams. Every minute brings one fault and a few changes by the
API; every half minute everything that could grow is sampled. The folder then has ``samples.csv`` (second,
series, value), ``failures.tsv`` (each failed request), ``faults.tsv`` and the data folder; the summary is
printed. Nothing here passes or fails by figures.
"""

import argparse
import asyncio
import csv
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.benchmarks.endurance import samples, summary
from tests.benchmarks.endurance.changes import Changes
from tests.benchmarks.endurance.clients import FoldedLoad, LongStreams, Outcomes
from tests.benchmarks.endurance.faults import Faults
from tests.faults.whole_stack import WholeStack

MINUTE_S = 60.0
SAMPLE_S = 30.0
QUIET_S = 30.0
"""Without faults, at the end."""


class Run:
    """``now``: the fault that goes on, or the last one."""

    def __init__(self, whole: WholeStack, options: argparse.Namespace, folder: Path) -> None:
        self.whole = whole
        self.options = options
        self.folder = folder
        self.now = "before any fault"
        self.began = time.monotonic()
        self.rng = Random(options.seed)
        self.outcomes = Outcomes(folder / "failures.tsv", lambda: self.now)
        self.changes = Changes(whole, Random(options.seed))

    async def go(self) -> None:
        key = self.whole.stack.api("POST", "/client-keys", {"name": "endurance"})["key"]
        fields = f"Authorization: Bearer {key}\r\n".encode()
        port, rate, streams = self.whole.proxy_port, self.options.rate, self.options.streams
        self.changes.log_in()
        async with (
            FoldedLoad(port, rate, self.outcomes, fields) as load,
            LongStreams(port, streams, self.outcomes, fields, Random(self.options.seed)),
        ):
            background = [
                asyncio.create_task(self._sample()),
                asyncio.create_task(self.changes.watch_page("/ws/overview", 600.0)),
                asyncio.create_task(self.changes.watch_page("/ws/fleets/echo", 20.0)),
            ]
            await self._faults()
            self.now = "at the end"
            await asyncio.sleep(QUIET_S)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        self.outcomes.held_s = load.held_s

    async def _faults(self) -> None:
        faults = Faults(self.whole, self.rng).in_turn()
        with (self.folder / "faults.tsv").open("w", buffering=1) as file:
            for minute in range(1, self.options.minutes):
                await self._until(minute * MINUTE_S)
                self.now, fault = next(faults)
                began, problem = time.monotonic(), ""
                try:
                    await fault()
                except (AssertionError, OSError, IndexError) as failed:
                    problem = f"\t{failed!r}"  # the run goes on: what comes after it is of interest
                lasted_s = time.monotonic() - began
                file.write(f"{began - self.began:.1f}\t{lasted_s:.1f}\t{self.now}{problem}\n")
                await self.changes.a_minute()

    async def _until(self, moment_s: float) -> None:
        await asyncio.sleep(max(0.0, self.began + moment_s - time.monotonic()))

    async def _sample(self) -> None:
        with (self.folder / "samples.csv").open("w", newline="", buffering=1) as file:
            writer = csv.writer(file)
            for number in range(1_000_000):
                await self._until(number * SAMPLE_S)
                lag_s = time.monotonic() - self.began - number * SAMPLE_S
                at_s = f"{time.monotonic() - self.began:.1f}"
                found = await asyncio.to_thread(lambda: list(samples.all_series(self.whole)))
                found.append(("loop lag of this script, s", lag_s))
                writer.writerows((at_s, name, f"{value:g}") for name, value in found)

    def executed_twice(self) -> int:
        """Requests that may not be sent twice and were: a byte for each number that clients have given."""
        seen = bytearray(int(self.options.minutes * MINUTE_S * self.options.rate * 2) + 1000)
        for replica in self.whole.replicas:
            with replica.executed.open() as lines:
                for line in lines:
                    kind, _, number = line.strip().partition("-")
                    if kind == "unsafe":
                        seen[int(number)] += 1
        return sum(times > 1 for times in seen)

    def told(self) -> str:
        changes = "\n".join(f"{count:6} {what}" for what, count in sorted(self.changes.failures.items()))
        return "\n\n".join(
            [
                self.outcomes.listed(),
                f"executed twice, of those that may not be: {self.executed_twice()}",
                f"changes: {dict(self.changes.done)}; not at the first try:\n{changes}",
                summary.table(summary.read(self.folder / "samples.csv")),
            ]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--streams", type=int, default=36, help="long streams at any time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for all that is written; a short path")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="endurance-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {folder}",
        flush=True,
    )
    whole = WholeStack(folder)
    try:
        whole.ready()
        run = Run(whole, options, folder)
        try:
            asyncio.run(run.go())
        finally:
            print(run.told(), flush=True)
    finally:
        whole.stop()


if __name__ == "__main__":
    main()
