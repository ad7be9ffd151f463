"""The short form of the fault suite: one fault after the other, while clients go on asking."""

import asyncio
import signal
import time
from collections.abc import Callable

import pytest

from routing.contract.policy import Policy, Timeouts
from tests.conftest import RedisServer
from tests.faults.bench import Bench, executed_twice, failures, listed, unexcused
from tests.faults.load import Load

RATE = 40.0
EACH_S = 1.0
SETTLE_S = 0.5
LIMIT_S = 30.0
"""For what takes a second or five, on a machine that is busy."""

pytestmark = [pytest.mark.system, pytest.mark.any_database]


async def test_one_fault_after_the_other(
    start_bench: Callable[[Policy], Bench], redis_server: RedisServer
) -> None:
    """Nothing fails that may be sent twice and was not begun, and nothing else is sent twice."""
    bench = await asyncio.to_thread(start_bench, Policy(timeouts=Timeouts(connect_s=2.0)))
    faults: list[tuple[float, str]] = []

    def begin(name: str) -> None:
        faults.append((time.monotonic(), name))

    killed, wrong, cut, lost = bench.replicas
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(EACH_S)
        begin("killed")
        await asyncio.to_thread(killed.kill)
        await bench.until(lambda said: "nothing listens" in said, killed, LIMIT_S)
        begin("back")
        await asyncio.to_thread(killed.restart)
        await bench.until(lambda said: not said, killed, LIMIT_S)
        for replica, mode in (wrong, "not_http"), (cut, "mid_body"), (lost, "reset"):
            begin(mode)
            replica.mode(mode)
            await asyncio.sleep(EACH_S)
            replica.mode("pass")
            # What has just failed there is sent once more, and not to the next one that fails.
            await asyncio.sleep(SETTLE_S)
        begin("stopped")
        killed.signal(signal.SIGSTOP)
        await asyncio.sleep(EACH_S)
        killed.signal(signal.SIGCONT)
        begin("Redis killed")
        await asyncio.to_thread(redis_server.stop)
        await asyncio.sleep(EACH_S)
        redis_server.start()  # by this thread: the server ends with the one that started it
    told = listed(load.results, faults)
    print(told)
    assert not unexcused(load.results), told
    assert not executed_twice(bench, load.results), told
    # Everything answers again, so that little can have failed at all.
    assert len(failures(load.results)) < len(load.results) / 10, told
