"""Faults mixed and in turn, of replicas and of Redis, while clients go on asking."""

import asyncio
import signal
import time
from collections.abc import Callable
from random import Random

import pytest

from routing.contract.policy import Policy
from tests.conftest import RedisServer
from tests.faults.amounts import FOR_S, RATE
from tests.faults.bench import Bench, executed_twice, failures, listed, unexcused
from tests.faults.load import Load
from tests.faults.test_each_mode import OUT_WITHIN_S, POLICY, SLOWER_MACHINE, WARM_S

MIXED = (
    "refuse",
    "reset",
    "half_close",
    "mid_body",
    "instant_500",
    "not_http",
    "blackhole",
    "latency",
    "slice",
)

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_in_turn(start_bench: Callable[[Policy], Bench], seed: int) -> None:
    """One replica after the other, each with another fault than the last one."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    rng, faults = Random(seed), []
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(WARM_S)
        for mode in rng.sample(MIXED, len(MIXED)):
            bad = rng.choice(bench.replicas)
            faults.append((time.monotonic(), f"{mode} of {bad.name}"))
            bad.mode(mode)
            await asyncio.sleep(FOR_S / 5)
            if mode == "blackhole":
                # What one swallows that ends before it is seen waits for its time limits, as if it were slow.
                await bench.until(bool, bad, SLOWER_MACHINE * OUT_WITHIN_S[mode])
            bad.mode("pass")
            await bench.until(lambda said: not said, bad, SLOWER_MACHINE * 10.0)
    told = listed(load.results, faults)
    print(told)
    assert not unexcused(load.results), told
    assert not executed_twice(bench, load.results), told


async def test_two_at_a_time(start_bench: Callable[[Policy], Bench]) -> None:
    """Half of the fleet fails at any time. A request that both have lost is lost; all else is answered."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    rng, faults = Random(3), []
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(WARM_S)
        for _ in range(6):
            bad = rng.sample(bench.replicas, 2)
            modes = rng.sample(MIXED, 2)
            faults.append((time.monotonic(), " and ".join(modes)))
            for replica, mode in zip(bad, modes, strict=True):
                replica.mode(mode)
            await asyncio.sleep(FOR_S / 5)
            for replica in bad:
                replica.mode("pass")
                await bench.until(lambda said: not said, replica, SLOWER_MACHINE * 10.0)
    told = listed(load.results, faults)
    print(told)
    assert not executed_twice(bench, load.results), told
    # How many streams are cut off goes by how long they last on this machine.
    cut = [one for one in load.results if one.kind == "stream" and one.begun and not one.ok]
    failed = len(failures(load.results))
    assert failed - len(cut) <= 0.01 * len(load.results), told
    assert failed <= 0.05 * len(load.results), told


async def test_redis_is_killed_stopped_and_emptied(
    start_bench: Callable[[Policy], Bench], redis_server: RedisServer
) -> None:
    """No request needs it."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(2.0)
        faults = [(time.monotonic(), "Redis stopped")]
        assert redis_server.process is not None
        redis_server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(FOR_S)
        redis_server.process.send_signal(signal.SIGCONT)
        faults.append((time.monotonic(), "Redis killed, and back without its data"))
        await asyncio.to_thread(redis_server.stop)
        await asyncio.sleep(FOR_S / 2)
        redis_server.start()  # by this thread: the server ends with the one that started it
        await asyncio.sleep(FOR_S / 2)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told
