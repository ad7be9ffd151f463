"""The table applier: emergency drains over every table, and refusals."""

import asyncio
import gc
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from routing.balancing.pool.table import Table
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.contract.telemetry import FleetCounters, WorkerReport, decode_report, encode_report
from routing.worker.config import table_applier
from routing.worker.config.fleet_reports import fleet_reports
from routing.worker.config.kept_counters import KeptCounters
from routing.worker.config.table_applier import TableApplier


def table(version: int = 1, replicas: int = 2) -> FleetSnapshot:
    specs = [
        ReplicaSpec(uid=f"u{number}", name=f"r{number}", url=f"http://10.0.{number // 250}.{number % 250}:80")
        for number in range(1, replicas + 1)
    ]
    return FleetSnapshot(
        epoch=1, version=version, revision=1, name="echo", protocol="generic", replicas=specs
    )


MANIFEST = Manifest(epoch=1, version=1, fleets={"echo": 1}, default="echo")


async def test_an_emergency_drain_lies_over_every_table_and_is_never_kept() -> None:
    taken: list[tuple[Manifest | None, list[FleetSnapshot]]] = []
    feed = TableApplier(Table(rng=Random(1)), lambda *applied: taken.append(applied[:2]))

    def states() -> list[str]:
        return [replica.spec.admin_state for replica in feed.table.fleets["echo"].replicas]

    await feed.apply(MANIFEST, [table()])
    await feed.apply_emergency_drains([("echo", "r1", 50.0), ("gone", "r1", 60.0)])
    assert states() == ["draining", "active"]
    told = [(one.fleet, one.replica, one.expires_in_s) for one in feed.emergency_drains(52.0)]
    assert told == [("echo", "r1", 0.0), ("gone", "r1", 8.0)]
    live = feed.table.fleets["echo"].replicas[0]
    await feed.apply(None, [table(version=2)])
    assert states() == ["draining", "active"]
    assert feed.fleet_version("echo") == (1, 2)
    await feed.apply_emergency_drains([])
    assert states() == ["active", "active"]
    assert feed.table.fleets["echo"].replicas[0] is live
    assert taken == [(MANIFEST, [table()]), (None, [table(version=2)])]


async def test_a_refusal_is_told_until_a_good_table_comes() -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table()])
    bad = FleetSnapshot(
        epoch=1, version=2, revision=1, name="echo", protocol="generic", replicas=table().replicas * 2
    )
    await feed.apply(None, [bad])
    ack = feed.fleet_acknowledgement("echo")
    assert ack.applied == "1:1"
    assert "uid" in ack.refused
    [report] = await fleet_reports(feed.table.fleets, feed.refused_fleets, KeptCounters())
    assert report.refused == ack.refused
    await feed.apply(None, [table(version=3)])
    assert feed.fleet_acknowledgement("echo").refused == ""
    await feed.apply(Manifest(epoch=1, version=2, default="nobody"), [])
    assert "nobody" in feed.manifest_acknowledgement().refused
    assert feed.manifest_acknowledgement().applied == "1:1"


async def test_a_large_table_is_applied_in_slices_and_swapped_in_at_once() -> None:
    taken: list[tuple[Manifest | None, list[FleetSnapshot]]] = []
    feed = TableApplier(Table(rng=Random(1)), lambda *applied: taken.append(applied[:2]))
    await feed.apply(MANIFEST, [table()])
    seen: list[int] = []

    async def others() -> None:
        """What the event loop serves meanwhile."""
        while True:
            seen.append(len(feed.table.fleets["echo"].replicas))
            await asyncio.sleep(0)

    serving = asyncio.create_task(others())
    await asyncio.sleep(0)
    large = table(version=2, replicas=2000)
    await feed.apply(None, [large])
    serving.cancel()
    assert set(seen) == {2, 2000} or set(seen) == {2}
    assert seen.count(2) >= 2000 / 60, "it was served after every slice"
    assert feed.fleet_version("echo") == (1, 2)
    assert taken[1:] == [(None, [large])]


async def test_a_drain_in_the_middle_of_slices_holds() -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table()])
    applying = asyncio.create_task(feed.apply(None, [table(version=2, replicas=1000)]))
    for _ in range(5):
        await asyncio.sleep(0)
    await feed.apply_emergency_drains([("echo", "r1", 1e9)])
    await applying
    replicas = feed.table.fleets["echo"].replicas
    assert len(replicas) == 1000
    assert [replica.name for replica in replicas if replica.spec.admin_state == "draining"] == ["r1"]


async def turns_of(work: Coroutine[Any, Any, None]) -> int:
    """How often the event loop served others while it was done."""
    task, turns = asyncio.create_task(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def test_an_emergency_drain_of_a_large_fleet_is_applied_in_slices() -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table(replicas=5000)])
    assert await turns_of(feed.apply_emergency_drains([("echo", "r7", 1e9)])) >= 5

    def drained() -> list[str]:
        replicas = feed.table.fleets["echo"].replicas
        return [replica.name for replica in replicas if replica.spec.admin_state == "draining"]

    assert drained() == ["r7"]
    changed = table(version=2, replicas=5000)
    changed.replicas.append(ReplicaSpec(uid="new", name="new", url="http://10.1.0.1:80"))
    assert await turns_of(feed.apply(None, [changed])) >= 5, "a drain does not spoil what was prepared"
    assert drained() == ["r7"]
    assert len(feed.table.fleets["echo"].replicas) == 5001


async def test_one_change_is_made_after_the_other() -> None:
    """A table from the master, one from Redis and a drain at once: the last of each holds."""
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table()])
    changes = [
        feed.apply(None, [table(version=2, replicas=1000)]),
        feed.apply_emergency_drains([("echo", "r1", 1e9)]),
        feed.apply(None, [table(version=3, replicas=900)]),
        feed.apply_emergency_drains([("echo", "r2", 1e9)]),
    ]
    await asyncio.gather(*changes)
    replicas = feed.table.fleets["echo"].replicas
    assert len(replicas) == 900
    assert [replica.name for replica in replicas if replica.spec.admin_state == "draining"] == ["r2"]
    assert feed.fleet_version("echo") == (1, 3)


async def test_a_report_about_a_large_table_is_made_in_slices() -> None:
    feed = TableApplier(Table(rng=Random(1), in_slices=True), lambda *_: None)
    await feed.apply(MANIFEST, [table(replicas=1000)])
    found: list[FleetCounters] = []

    async def report() -> None:
        found.extend(await fleet_reports(feed.table.fleets, {}, KeptCounters()))

    assert await turns_of(report()) >= 10
    report_of_all = decode_report(
        encode_report(WorkerReport(worker="w", incarnation=1, sequence=1, uptime_s=1.0, fleets=found))
    )
    listed = feed.table.fleets["echo"].replicas
    assert [one.name for one in report_of_all.fleets[0].replicas] == [replica.name for replica in listed]


async def test_an_emergency_drain_of_all_replicas_is_put_into_a_table_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table(replicas=2000)])
    replicas = feed.table.fleets["echo"].replicas
    made, most = 0, 0
    real = table_applier.replace

    def counted(spec: Any, **changes: Any) -> Any:
        nonlocal made
        made += 1
        return real(spec, **changes)

    monkeypatch.setattr(table_applier, "replace", counted)
    drains = [("echo", replica.name, 1e9) for replica in replicas]
    task, before = asyncio.create_task(feed.apply_emergency_drains(drains)), 0
    while not task.done():
        await asyncio.sleep(0)
        most, before = max(most, made - before), made
    await task
    assert made >= 2000
    assert most <= table_applier.DRAINED_AT_ONCE + 1
    assert all(one.spec.admin_state == "draining" for one in feed.table.fleets["echo"].replicas)


async def test_no_full_garbage_collection_falls_into_the_slices_of_a_table() -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda *_: None)
    await feed.apply(MANIFEST, [table()])
    before = gc.get_threshold()
    found: list[int] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    large = table(version=2, replicas=1000)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100, 1, 1)  # few new objects make a full collection due
    gc.callbacks.append(collected)
    try:
        await feed.apply(None, [large])
        assert gc.get_threshold() == (100, 1, 1)
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*before)
    assert max(found) == 1
