"""``kill -9`` of the proxy's processes, again and again: workers, the master, both masters of an upgrade."""

import asyncio
import signal
import time
from collections.abc import Callable
from random import Random

import pytest

from tests.faults.amounts import RATE, STREAMS, TIMES
from tests.faults.bench import Bench, executed_twice, failures, listed
from tests.faults.kills import Kill, cut_by, kill, others
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY
from tests.proxy_process import until

RESTARTED_AFTER_S = 1.0
"""By a service manager."""

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(3600)]

Start = Callable[..., Bench]


async def test_a_worker_is_killed(start_bench: Start) -> None:
    """Connections of that worker end. Those that wait to be accepted are its successor's."""
    bench = await asyncio.to_thread(start_bench, POLICY, workers=2)
    rng, kills, faults = Random(4), list[Kill](), []
    async with Load(bench.proxy.port, RATE, streams=STREAMS) as load:
        await asyncio.sleep(5.0)
        for number in range(TIMES):
            before = set(await asyncio.to_thread(bench.proxy.workers))
            killed = rng.choice(sorted(before))
            faults.append((time.monotonic(), f"worker {number + 1} killed"))
            kills.append(await kill(killed))
            await asyncio.to_thread(until, lambda gone={killed}: new_workers(bench, gone), "another serves")
            faults.append((time.monotonic(), "its successor serves"))
            await asyncio.sleep(2.0)
    cut = cut_by(load.results, kills)
    told = f"{len(cut)} in flight in killed workers\n{listed(load.results, faults)}"
    print(told)
    assert cut, told
    assert not others(load.results, cut), told
    assert not executed_twice(bench, load.results), told


async def test_the_master_is_killed(start_bench: Start) -> None:
    """Nobody notices: its workers serve until those of the next one do, and finish what they have."""
    bench = await asyncio.to_thread(start_bench, POLICY, workers=2)
    faults = []
    async with Load(bench.proxy.port, RATE, streams=STREAMS) as load:
        await asyncio.sleep(5.0)
        for number in range(TIMES):
            faults.append((time.monotonic(), f"master {number + 1} killed"))
            await kill_master(bench, bench.proxy.process.pid)
            await asyncio.sleep(2.0)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told


async def test_a_master_is_killed_after_an_upgrade(start_bench: Start) -> None:
    """Both there are in turn: the one that has taken over, and the one before, which stays on its behalf."""
    bench = await asyncio.to_thread(start_bench, POLICY, workers=2)
    faults = []
    async with Load(bench.proxy.port, RATE, streams=STREAMS) as load:
        await asyncio.sleep(2.0)
        for name in "the master that has taken over", "the master that stays":
            before = set(await asyncio.to_thread(bench.proxy.workers))
            bench.proxy.signal(signal.SIGUSR2)
            await asyncio.to_thread(until, lambda old=before: new_workers(bench, old), "it has taken over")
            first = bench.proxy.process.pid
            (successor,) = [pid for pid in bench.masters() if pid != first]
            faults.append((time.monotonic(), f"killed: {name}"))
            await kill_master(bench, first if name.endswith("stays") else successor)
            await asyncio.sleep(2.0)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told


async def kill_master(bench: Bench, pid: int) -> None:
    """And start the next one when the first process of the proxy has ended, as a service manager does."""
    before = set(await asyncio.to_thread(bench.proxy.workers))
    await kill(pid)
    await asyncio.to_thread(bench.proxy.exit_status)
    await asyncio.sleep(RESTARTED_AFTER_S)
    await asyncio.to_thread(bench.start_proxy)
    await asyncio.to_thread(bench.proxy.ready)
    await asyncio.to_thread(until, lambda: new_workers(bench, before), "its workers serve")


def new_workers(bench: Bench, old: set[int]) -> bool:
    """Whether two workers serve, of which none is one of these."""
    serving = bench.workers()
    return len(serving) == 2 and not old & set(serving)
