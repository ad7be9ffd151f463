"""The control plane's processes are killed, one after the other and all at once: no request needs them."""

import asyncio
import os
import signal
import time

import pytest

from tests.faults.amounts import GONE_S, RATE, STRICT, TIMES
from tests.faults.bench import failures, listed
from tests.faults.calm import await_calm
from tests.faults.kills import cut_by, kill, others
from tests.faults.load import Load, Result
from tests.faults.spans import during, percentile_ms
from tests.faults.whole_stack import WholeStack
from tests.proxy_process import until
from tests.system.stack import is_running

ROLES = ("web", "celery worker", "beat", "conductor", "redis")
OUTLIVING = ("redis", "proxy master", "proxy worker")
"""What goes on when ``up`` was killed, and is adopted by the next one."""
WARM_S = 5.0
QUIET_S = min(GONE_S, 60.0)
"""Of each span without a fault, for comparison."""
P99_TIMES, P99_MORE_MS = (1.0, 5.0) if STRICT else (5.0, 250.0)
"""How much worse the 99th percentile may be than in quiet spans before it is said to be wrong: for a machine
on which something else runs too. What it was is printed."""

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(7200)]


async def test_each_process_is_killed(whole_stack: WholeStack) -> None:
    """Each is back by itself; ``up`` finds what it has left. The proxy's processes are those of before."""
    proxy = whole_stack.pids()["proxy master"], set(whole_stack.pids()["proxy worker"])
    faults = []
    async with Load(whole_stack.proxy_port, RATE, streams=10) as load:
        await asyncio.sleep(WARM_S)
        for _ in range(TIMES):
            for role in ROLES:
                faults.append((time.monotonic(), f"{role} killed"))
                before = whole_stack.kill(role)
                await asyncio.to_thread(whole_stack.await_another, role, before)
            faults.append((time.monotonic(), "up killed, and started again"))
            left = whole_stack.pids()
            await asyncio.to_thread(whole_stack.kill_up)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(whole_stack.start_up)
            adopted = whole_stack.pids()
            for role in OUTLIVING:
                assert sorted(adopted[role]) == sorted(left[role]), role
        faults.append((time.monotonic(), "all are back"))
        await asyncio.to_thread(await_calm, whole_stack)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told
    assert proxy == (whole_stack.pids()["proxy master"], set(whole_stack.pids()["proxy worker"]))


async def test_the_proxys_processes_are_killed(whole_stack: WholeStack) -> None:
    """As before a proxy alone (:mod:`tests.faults.test_killed_proxy`); here ``up`` starts the next master."""
    faults, kills = [], []
    async with Load(whole_stack.proxy_port, RATE, streams=10) as load:
        await asyncio.sleep(WARM_S)
        for _ in range(TIMES):
            for role in "proxy worker", "proxy master":
                before = whole_stack.pids()
                faults.append((time.monotonic(), f"{role} killed"))
                # The newest worker: those of a master that was killed go on for a while.
                killed = await kill(before[role][-1 if role == "proxy worker" else 0])
                if role == "proxy worker":
                    kills.append(killed)
                await asyncio.to_thread(whole_stack.await_another, role, before[role])
                await asyncio.to_thread(whole_stack.await_eligible)
    cut = cut_by(load.results, kills)
    told = f"{len(cut)} in flight in killed workers\n{listed(load.results, faults)}"
    print(told)
    assert not others(load.results, cut), told


async def test_redis_is_stopped_and_gone(whole_stack: WholeStack) -> None:
    """Each for ``FAULT_GONE_S``. Stopped it takes connections and answers nothing; gone is the process, while
    ``up`` is stopped, which would start another."""
    stack = whole_stack.stack
    faults = [(time.monotonic(), "begin")]
    async with Load(whole_stack.proxy_port, RATE, streams=10) as load:
        await quiet(faults)
        faults.append((time.monotonic(), "Redis stopped"))
        (redis,) = whole_stack.pids()["redis"]
        os.kill(redis, signal.SIGSTOP)
        await asyncio.sleep(GONE_S)
        os.kill(redis, signal.SIGCONT)
        await recovered(whole_stack, faults)
        await quiet(faults)
        faults.append((time.monotonic(), "Redis gone"))
        up = stack.process.pid
        os.kill(up, signal.SIGSTOP)  # it would start another
        os.kill(whole_stack.pids()["redis"][0], signal.SIGKILL)
        await asyncio.sleep(GONE_S)
        os.kill(up, signal.SIGCONT)
        await recovered(whole_stack, faults)
        await quiet(faults)
    compare(load.results, faults)


async def test_the_whole_control_plane_is_gone(whole_stack: WholeStack) -> None:
    """For ``FAULT_GONE_S``: everything but proxy and replicas is killed, then started again."""
    faults = [(time.monotonic(), "begin")]
    proxy = whole_stack.pids()["proxy master"], set(whole_stack.pids()["proxy worker"])
    async with Load(whole_stack.proxy_port, RATE, streams=10) as load:
        await quiet(faults)
        faults.append((time.monotonic(), "the control plane gone"))
        await asyncio.to_thread(whole_stack.kill_up)
        pids = [pid for role in ROLES for pid in whole_stack.pids()[role]]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: not any(map(is_running, pids)), "they have ended")
        await asyncio.sleep(GONE_S)
        assert not any(whole_stack.pids()[role] for role in ROLES)
        faults.append((time.monotonic(), "started again"))
        await asyncio.to_thread(whole_stack.start_up)
        await recovered(whole_stack, faults)
        await quiet(faults)
    compare(load.results, faults)
    assert proxy == (whole_stack.pids()["proxy master"], set(whole_stack.pids()["proxy worker"]))


async def quiet(faults: list[tuple[float, str]]) -> None:
    await asyncio.sleep(WARM_S)
    faults.append((time.monotonic(), "quiet"))
    await asyncio.sleep(QUIET_S)


async def recovered(stack: WholeStack, faults: list[tuple[float, str]]) -> None:
    faults.append((time.monotonic(), "recovering"))
    await asyncio.to_thread(await_calm, stack)
    await asyncio.to_thread(stack.await_eligible)


def compare(results: list[Result], faults: list[tuple[float, str]]) -> None:
    """Nothing failed, and each fault's 99th percentile is near that of the quiet spans of the same run."""
    told = listed(results, faults)
    p99s: dict[str, list[float]] = {}
    ends = [*(since for since, _ in faults[1:]), float("inf")]
    for (since, name), end in zip(faults, ends, strict=True):
        p99s.setdefault(name, []).append(percentile_ms(during(results, since, end), 99))
    quietest, noisiest = min(p99s["quiet"]), max(p99s["quiet"])
    told += f"\np99 of quiet spans: {quietest:.1f} to {noisiest:.1f} ms"
    print(told)
    assert not failures(results), told
    for name, found in p99s.items():
        if name.endswith(("gone", "stopped")):
            assert max(found) < P99_TIMES * noisiest + P99_MORE_MS, told
