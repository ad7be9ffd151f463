"""How long it takes until a killed worker is followed, and whether restarts lose requests, many times over.

    python -m tests.benchmarks.restarts kill 20
    python -m tests.benchmarks.restarts restart 20
    python -m tests.benchmarks.restarts upgrade 20

``kill``: seconds from SIGKILL until what the worker had in flight is out of the shared counts, and until its
successor serves. ``restart`` and ``upgrade``: seconds until all workers are others, and how many requests of
clients that ask without a pause were answered, and failed, in all of them together.
"""

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from routing.shared.shm_counters import CELL_FIELDS, IN_FLIGHT, SharedCounters
from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.master.test_graceful_shutdown import gone, open_stream
from tests.routing.master.traffic import Traffic

STEADY_S = 10.2
"""After so long a worker's death is no part of a crash loop, which would be slowed down."""


@contextmanager
def running(workers: int) -> Iterator[tuple[Proxy, Replica]]:
    with tempfile.TemporaryDirectory() as folder:
        replica = Replica("a")
        file = fleet_file(Path(folder) / "fleets.yaml", [replica])
        flags = ("--workers", str(workers), "--min-drain-seconds", "0")
        proxy = Proxy(Path(folder), "--fleets", str(file), *flags).ready()
        try:
            yield proxy, replica
        finally:
            proxy.signal()
            proxy.exit_status()
            replica.stop()


def counts_of(parent: int) -> SharedCounters:
    for number in os.listdir(f"/proc/{parent}/fd"):
        place = f"/proc/{parent}/fd/{number}"
        if "switchyard-counts" in os.readlink(place):
            return SharedCounters(os.open(place, os.O_RDWR), 0)
    raise LookupError(f"process {parent} has no shared counts")


def tell(what: str, seconds: list[float]) -> None:
    middle, worst = statistics.median(seconds), max(seconds)
    print(f"{what}: median {middle:.3f} s, worst {worst:.3f} s of {len(seconds)}", flush=True)


def seconds_until(condition: Callable[[], bool], began: float) -> float:
    while not condition():
        time.sleep(0.001)
    return time.monotonic() - began


def kill(times: int) -> None:
    forgotten, followed = [], []
    with running(1) as (proxy, replica):
        for _ in range(times):
            (worker,) = proxy.workers()
            counts = counts_of(proxy.process.pid)
            with open_stream(proxy, replica):
                cells = next(one for one in range(counts.slots) if counts._view[cell(counts, one)])
                began = time.monotonic()
                os.kill(worker, signal.SIGKILL)
                at = cell(counts, cells)
                forgotten.append(seconds_until(lambda: not counts._view[at], began))  # noqa: B023
                followed.append(seconds_until(lambda: proxy.workers() not in ([], [worker]), began))  # noqa: B023
            replica.release.set()
            time.sleep(STEADY_S)
            replica.release.clear()
    tell("out of the counts", forgotten)
    tell("followed", followed)


def cell(counts: SharedCounters, slot: int) -> int:
    return slot * counts.workers * CELL_FIELDS + IN_FLIGHT


def replace(path: str, times: int) -> None:
    took = []
    with running(2) as (proxy, _):
        with Traffic(proxy, keeping=4) as traffic:
            for _ in range(times):
                old, began = proxy.workers(), time.monotonic()
                until(lambda: proxy.admin(path, "POST")[0] == 202, "it is begun")
                until(lambda: len(set(proxy.workers()) - set(old)) == 2, "others serve", 60)  # noqa: B023
                took.append(time.monotonic() - began)
                until(lambda: gone(old), "the old ones have finished", 60)  # noqa: B023
            traffic.more()
        tell("replaced", took)
        print(f"{sum(traffic.answered.values())} answered, failed: {traffic.failures or 'none'}")


def main() -> None:
    what, times = sys.argv[1], int(sys.argv[2])
    if what == "kill":
        kill(times)
    else:
        replace(f"/{what}", times)


if __name__ == "__main__":
    main()
