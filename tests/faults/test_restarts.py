"""Rolling restarts and live upgrades, again and again: nothing fails, and no stream of ten seconds is cut."""

import asyncio
import signal
import time
from collections.abc import Callable

import pytest

from tests.faults.amounts import RATE, STREAMS, TIMES
from tests.faults.bench import Bench, failures, listed, settled
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY
from tests.faults.whole_stack import WholeStack
from tests.proxy_process import until

SETTLED_WITHIN_S = 120.0
BEGUN_S = 10.0
"""By then all streams have begun, one after the other."""
BOTH = [signal.SIGUSR1, signal.SIGUSR2]

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(7200)]


@pytest.mark.parametrize("number", BOTH, ids=["restart", "upgrade"])
async def test_of_the_proxy(start_bench: Callable[..., Bench], number: signal.Signals) -> None:
    bench = await asyncio.to_thread(start_bench, POLICY, workers=2)
    await again_and_again(bench.proxy.port, bench.proxy.admin_port, lambda: bench.proxy.signal(number))


@pytest.mark.parametrize("number", BOTH, ids=["restart", "upgrade"])
async def test_of_up(whole_stack: WholeStack, number: signal.Signals) -> None:
    """``up`` passes the signal on."""
    stack = whole_stack.stack
    await again_and_again(stack.proxy_port, stack.admin_port, lambda: stack.process.send_signal(number))


async def again_and_again(port: int, admin_port: int, begin: Callable[[], None]) -> None:
    faults: list[tuple[float, str]] = []
    async with Load(port, RATE, streams=STREAMS) as load:
        await asyncio.sleep(BEGUN_S)
        for time_number in range(1, TIMES + 1):
            old = set(await asyncio.to_thread(until, lambda: settled(admin_port), "it serves"))
            faults.append((time.monotonic(), f"time {time_number}"))
            begin()

            def done(old: set[int] = old) -> bool:
                now = set(settled(admin_port))
                return bool(now) and not now & old

            await asyncio.to_thread(until, done, "all workers are new", SETTLED_WITHIN_S)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told
