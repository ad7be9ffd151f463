"""Full disks while clients go on asking: of the proxy's state directory, and of the control plane's data."""

import asyncio
import itertools
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.amounts import FOR_S, RATE
from tests.faults.bench import Bench, failures, listed
from tests.faults.calm import await_calm
from tests.faults.kills import cut_by, kill, others
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY
from tests.faults.whole_stack import WholeStack
from tests.proxy_process import until
from tests.small_disk import mounted
from tests.system.stack import Answer, Stack, exchange

RECOVERED_WITHIN_S = 120.0

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(1800)]


async def test_of_the_proxys_state(start_bench: Callable[..., Bench], tmp_path: Path) -> None:
    """New tables are followed, killed workers replaced; the copy on disk is made up for."""
    with mounted(tmp_path / "disk", mebibytes=2) as disk:
        state = disk.folder / "state"
        bench = await asyncio.to_thread(start_bench, POLICY, workers=2, state=state)

        def copied() -> bool:
            stored = state / "fleet-echo.json"
            return stored.exists() and json.loads(stored.read_text())["version"] == bench.version

        faults = []
        async with Load(bench.proxy.port, RATE) as load:
            await asyncio.to_thread(until, copied, "there is a copy")
            disk.fill()
            faults.append((time.monotonic(), "the disk is full"))
            bench.publish()
            await asyncio.sleep(FOR_S / 2)
            faults.append((time.monotonic(), "and a worker is killed"))
            killed = (await asyncio.to_thread(bench.proxy.workers))[0]
            kills = [await kill(killed)]
            await asyncio.to_thread(
                until, lambda: len(set(bench.workers()) - {killed}) == 2, "its successor serves"
            )
            assert not copied()
            disk.free()
            faults.append((time.monotonic(), "there is room"))
            await asyncio.to_thread(until, copied, "the copy is made up for", RECOVERED_WITHIN_S)
    told = listed(load.results, faults)
    print(told)
    assert not others(load.results, cut_by(load.results, kills)), told


async def test_of_the_control_plane(tmp_path: Path) -> None:
    """Reads are answered; a change is refused with folder and cure; afterwards all is well by itself."""
    with mounted(tmp_path / "data", mebibytes=96) as disk:
        running = await asyncio.to_thread(WholeStack, tmp_path)
        try:
            await asyncio.to_thread(running.ready)
            await full_data_disk(running, disk.fill, disk.free)
        finally:
            await asyncio.to_thread(running.stop)


async def full_data_disk(running: WholeStack, fill: Callable[[], None], free: Callable[[], None]) -> None:
    stack, faults = running.stack, []
    before = running.pids()
    async with Load(running.proxy_port, RATE, streams=10) as load:
        await asyncio.sleep(FOR_S / 4)
        await asyncio.to_thread(checkpoint, stack.data)
        fill()
        faults.append((time.monotonic(), "the data disk is full"))
        refused = await asyncio.to_thread(until, Writer(stack), "a change is refused")
        assert f"Free space in {stack.data}" in refused.json["detail"]
        for _ in range(int(FOR_S / 2)):
            assert (await asyncio.to_thread(stack.api, "GET", "/fleets"))["results"]
            await asyncio.sleep(1.0)
        free()
        faults.append((time.monotonic(), "there is room"))
        await asyncio.to_thread(stack.api, "POST", "/fleets", {"name": "after", "protocol": "generic"})
        await asyncio.to_thread(await_calm, running)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told
    assert running.pids() == before, "no process has ended"


def checkpoint(data: Path) -> None:
    """Else there would be room in the write-ahead log for a while."""
    with closing(sqlite3.connect(data / "db.sqlite3", timeout=30)) as database:
        until(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "done")


class Writer:
    """Makes fleets until one is refused; returns that answer."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._numbers = itertools.count(1)

    def __call__(self) -> Answer | None:
        body = {"name": f"more-{next(self._numbers)}", "protocol": "generic"}
        answer = exchange(self._stack.port, "POST", "/api/v1/fleets", body, self._stack.authorization)
        assert answer.status in (201, 503), answer
        return answer if answer.status == 503 else None
