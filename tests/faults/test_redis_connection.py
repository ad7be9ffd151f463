"""The network between the proxy and Redis: late, sliced, cut, garbled, swallowed; a chaos proxy before Redis.

No request may fail meanwhile, no table that was not sent may be applied, and what was published in the midst
of it is applied once the network is well again.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.conftest import RedisServer
from tests.faults.amounts import FOR_S, RATE
from tests.faults.bench import Bench, ChaosProxy, failures, listed
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY, WARM_S
from tests.ports import free_port
from tests.proxy_process import Publisher, until

MODES = (
    *("latency", "slice", "reset", "half_close", "mid_body", "not_http"),
    *("blackhole", "refuse", "at_random"),
)
APPLIED_WITHIN_S = 30.0
"""A connection that says nothing is given up after some seconds, and tried again after some more."""

pytestmark = [pytest.mark.system, pytest.mark.any_database]


@pytest.fixture
def between(redis_server: RedisServer) -> Iterator[tuple[ChaosProxy, str]]:
    """The chaos proxy before Redis, and the URL of Redis through it."""
    port, socket = free_port(), redis_server.url.partition("unix://")[2].partition("?")[0]
    chaos = ChaosProxy("Redis", port, Path(socket))
    yield chaos, f"redis://127.0.0.1:{port}/0"
    chaos.stop()


async def asked_meanwhile(
    bench: Bench, chaos: ChaosProxy, modes: tuple[str, ...], rate: float, warm_s: float, for_s: float
) -> None:
    """One mode after the other; tables are published before, within and after each."""
    faults: list[tuple[float, str]] = []
    async with Load(bench.proxy.port, rate) as load:
        await asyncio.sleep(warm_s)
        for mode in modes:
            faults.append((time.monotonic(), f"Redis: {mode}"))
            chaos.mode(mode)
            await asyncio.sleep(for_s / 2)
            await asyncio.to_thread(bench.publish)
            await asyncio.sleep(for_s / 2)
            chaos.mode("pass")
            newest = f":{bench.version}"
            await asyncio.to_thread(
                until,
                lambda newest=newest: bench.proxy.status()["manifest"].endswith(newest),
                f"the table that was published during {mode} is applied",
                APPLIED_WITHIN_S,
            )
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told


async def test_two_modes_in_short(
    tmp_path: Path, redis_client: "redis.Redis", between: tuple[ChaosProxy, str]
) -> None:
    chaos, url = between
    bench = await asyncio.to_thread(started, tmp_path, redis_client, url)
    try:
        await asked_meanwhile(bench, chaos, ("mid_body", "reset"), 40.0, 1.0, 1.0)
    finally:
        bench.stop()


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_each_mode(
    tmp_path: Path, redis_client: "redis.Redis", between: tuple[ChaosProxy, str]
) -> None:
    chaos, url = between
    bench = await asyncio.to_thread(started, tmp_path, redis_client, url)
    try:
        await asked_meanwhile(bench, chaos, MODES, RATE, WARM_S, FOR_S)
    finally:
        bench.stop()


def started(folder: Path, client: "redis.Redis", url: str) -> Bench:
    return Bench(folder, Publisher(client), url, POLICY).ready()
