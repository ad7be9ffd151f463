"""What a large table costs a worker: ``python -m tests.benchmarks.table_swap [--sizes 500,5000]``.

Prints, for each number of replicas of a fleet, milliseconds of CPU that applying its table in slices takes:
all of them, and the longest slice (between two of them requests are served). The table comes from Redis, in
chunks or in the old form, or from the master (a fleet file); or it stays, and one replica is drained, or all.
Then what such a table costs all the time: one cycle of refreshing the pool, in slices, without requests and
with 5,000 a second, and a report (once a second). Shared counts of two workers. Figures are of the cheapest
of five rounds; compare runs of one machine only.
"""

import argparse
import asyncio
import gc
import platform
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from msgspec.structs import replace

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.contract import snapshot_chunks
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec, encode
from routing.contract.telemetry import WorkerReport, encode_report
from routing.ipc.control_channel import EncodedTables, Tables, WorkerControlChannel
from routing.ipc.framed_channel import _encoder
from routing.shared.shm_counters import SharedCounters
from routing.worker.config.fleet_reports import fleet_reports
from routing.worker.config.kept_counters import KeptCounters
from routing.worker.config.slices import in_slices
from routing.worker.config.table_applier import TableApplier

ROUNDS = 5


def snapshot(version: int, size: int, first: int = 0, weight: float = 1.0) -> FleetSnapshot:
    replicas = [
        ReplicaSpec(
            uid=f"c0ffee00-0000-0000-0000-{n:012}",
            name=f"replica-{n}",
            url=f"http://10.{n // 62500}.{n // 250 % 250}.{n % 250 + 1}:8000",
            weight=weight,
        )
        for n in range(first, first + size)
    ]
    return FleetSnapshot(epoch=1, version=version, revision=1, name="f", protocol="openai", replicas=replicas)


class Slices:
    """CPU time of each slice: what runs between two turns of the event loop."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    async def measure(self, work: Coroutine[Any, Any, object]) -> None:
        slices: list[float] = []
        task = asyncio.ensure_future(work)
        while not task.done():
            began = time.process_time()
            await asyncio.sleep(0)
            slices.append((time.process_time() - began) * 1000)
        await task
        self.add(slices)

    def add(self, slices: list[float]) -> None:
        if not self.ms or sum(slices) < sum(self.ms):
            self.ms = slices

    def __str__(self) -> str:
        return f"{sum(self.ms):8.1f} in {len(self.ms):4} slices, longest {max(self.ms):5.1f}"


def least_ms(call: Callable[[], object]) -> float:
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        found.append((time.process_time() - began) * 1000)
    return min(found)


async def applier_of(shared: SharedCounters) -> TableApplier:
    def changed(manifest: Manifest | None, snapshots: list[FleetSnapshot], _: bool) -> None:
        _encoder.encode(Tables(manifest=manifest, snapshots=snapshots))  # as a worker tells its master

    applier = TableApplier(Table(shared, in_slices=True), changed)
    await applier.apply(Manifest(epoch=1, version=1, fleets={"f": 1}), [])
    return applier


def steps(size: int) -> Iterator[tuple[str, FleetSnapshot]]:
    """What is applied, one after the other."""
    yield "new fleet", snapshot(1, size)
    yield "one health changes", _one_unready(snapshot(2, size))
    yield "all weights change", snapshot(3, size, weight=2.0)
    yield "all are replaced", snapshot(4, size, first=size)


def decodings(size: int) -> Iterator[tuple[str, Coroutine[Any, Any, object]]]:
    """How a table that comes as a whole is decoded."""
    stored = encode(snapshot(1, size))
    yield "decoding, old form", _decode(stored)
    sent = _encoder.encode(Tables(manifest=None, snapshots=[snapshot(1, size)]))
    yield "decoding, master's", _decode_masters(sent)


async def _decode(stored: bytes) -> None:
    await in_slices(snapshot_chunks.from_json_in_steps(stored))


async def _decode_masters(sent: bytes) -> None:
    tables = WorkerControlChannel(_ignore, _ignore).decode(sent)
    assert isinstance(tables, EncodedTables)
    await in_slices(snapshot_chunks.from_msgpack_in_steps(tables.snapshots[0]))


def _ignore(*_: object) -> None:
    """Nothing comes."""


def _one_unready(table: FleetSnapshot) -> FleetSnapshot:
    first, *others = table.replicas
    return replace(table, replicas=[replace(first, health="unready"), *others])


async def run(size: int) -> None:
    found: dict[str, Slices] = {}
    for _ in range(ROUNDS):
        parent = SharedCounters.create(workers=2, replicas=2 * size + 100)
        shared = SharedCounters.attach(parent.fd, 0)
        other = await applier_of(SharedCounters.attach(parent.fd, 1))
        applier = await applier_of(shared)
        gc.collect()
        gc.freeze()
        for name, table in steps(size):
            await found.setdefault(name, Slices()).measure(applier.apply(None, [table]))
        one = [("f", f"replica-{size}", 1e9)]
        everyone = [("f", f"replica-{n}", 1e9) for n in range(size, 2 * size)]
        for name, drains in (("emergency drain", one), ("drain of all", everyone)):
            await found.setdefault(name, Slices()).measure(applier.apply_emergency_drains(drains))
        await applier.apply_emergency_drains([])
        for name, decoding in decodings(size):
            await found.setdefault(name, Slices()).measure(decoding)
        pool = applier.table.fleets["f"]
        await other.apply(None, [snapshot(4, size, first=size)])
        for name, slices in refreshes(pool, other.table.fleets["f"]):
            found.setdefault(name, Slices()).add(slices)
        kept = KeptCounters()
        for name in ("a first report", "a report"):
            await found.setdefault(name, Slices()).measure(report(applier, kept))
    print(f"{size} replicas, ms of CPU")
    fields = snapshot_chunks.stored_fields(snapshot(1, size))
    chunk = fields.get(snapshot_chunks.chunk_field(0))
    if chunk is not None:
        print(f"  decoding one chunk  {least_ms(lambda: snapshot_chunks.decode_chunk(chunk)):8.1f}")
    for name, slices in found.items():
        print(f"  {name:20}{slices}")
    sys.stdout.flush()


def refreshes(pool: Pool, other: Pool) -> Iterator[tuple[str, list[float]]]:
    """The first request after a new table; one cycle of refreshing, without requests and with 5,000 a second,
    as many at another worker."""
    now = time.monotonic()
    yield "first request", [_request_ms(pool, now)]
    for name, requests in (("a refresh, idle", 0), ("a refresh, busy", 500)):
        slices: list[float] = []
        for _ in range(requests):
            now += 0.0002
            _request_ms(pool, now)
            _request_ms(other, now)
        now, more = now + 1.0, True
        while more:
            began = time.process_time()
            more = pool.refresh_some(now)
            slices.append((time.process_time() - began) * 1000)
        yield name, slices


def _request_ms(pool: Pool, now: float) -> float:
    began = time.process_time()
    attempt = pool.begin(1.0, now)
    assert isinstance(attempt, Attempt)
    attempt.settle(Outcome.SUCCESS, now + 0.01)
    return (time.process_time() - began) * 1000


async def report(applier: TableApplier, kept: KeptCounters) -> None:
    fleets = await fleet_reports(applier.table.fleets, {}, kept)
    encode_report(WorkerReport(worker="h/1/0", incarnation=1, sequence=1, uptime_s=1.0, fleets=fleets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="500,2000,5000,12000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    print(f"Python {platform.python_version()}, {platform.machine()}")
    for size in sizes:
        asyncio.run(run(size))


if __name__ == "__main__":
    main()
