"""Soak: replicas fail and return, others are changed by the API, and every half minute it is noted what all
of it takes: memory of each process, the conductor's tick, the database, Redis. What leaks grows row by row.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks.fleet_size import api_calls, measured
from tests.benchmarks.processes import cpu_seconds, family, resident_bytes

EVERY_S = 30.0
TICK = "switchyard_conductor_tick_duration_seconds"


class Changes:
    """One replica after the other is changed, a few a second, until the block ends."""

    def __init__(self, port: int, token: str, replicas: int, fleets: int) -> None:
        self._arguments = port, token
        self._replicas, self._fleets = replicas, fleets
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.made = 0
        self.failed = 0

    def __enter__(self) -> "Changes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        call = api_calls.Caller(*self._arguments)
        while not self._stop.wait(0.5):
            replica = self.made * 97 % self._replicas
            path = f"/fleets/fleet-{replica % self._fleets}/replicas/r{replica}"
            status, _ = call("PATCH", path, {"weight": 1.0 + self.made % 7 / 10})
            self.made += 1
            self.failed += status != 200


def watch(
    seconds: float,
    pids: Mapping[str, int],
    scraped: Callable[[], measured.Page],
    database: Path,
    redis_bytes: Callable[[], int],
    events: Callable[[], int],
) -> None:
    """Print a row each EVERY_S. ``pids``: of processes by name. ``scraped``: the conductor's page."""
    print("seconds; MiB of", ", ".join(pids), end="; cores of them; tick, ms; MiB of database, log, Redis; ")
    print("events")
    began = time.monotonic()
    page, used, at, known = scraped(), _cpu(pids), began, events()
    while time.monotonic() - began < seconds:
        time.sleep(EVERY_S)
        now, now_page, now_used = time.monotonic(), scraped(), _cpu(pids)
        memory = " ".join(
            f"{sum(resident_bytes(one) for one in family(pid)) / 2**20:5.0f}" for pid in pids.values()
        )
        cores = " ".join(f"{(now_used[name] - used[name]) / (now - at):.2f}" for name in pids)
        _, tick_ms = measured.mean_ms(page, now_page, TICK)
        log = Path(f"{database}-wal")
        sizes = [os.path.getsize(database), os.path.getsize(log) if log.exists() else 0, redis_bytes()]
        stored = " ".join(f"{size / 2**20:6.1f}" for size in sizes)
        count = events()
        print(f"{now - began:6.0f}  {memory}  {cores}  {tick_ms:5.0f}  {stored}  {count - known}", flush=True)
        page, used, at, known = now_page, now_used, now, count


def _cpu(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: cpu_seconds(family(pid)) for name, pid in pids.items()}
