"""The wall clock is set, forward and backward, by an hour and by days, while clients go on asking."""

import asyncio
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from tests.faults.amounts import FOR_S, RATE
from tests.faults.bench import Bench, failures, listed
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY
from tests.faults.wall_clock import STEPS, WallClock, named

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(1800)]


async def test_the_proxys_clock(start_bench: Callable[..., Bench], tmp_path: Path) -> None:
    """No request is lost, no replica left out, and a worker that is started meanwhile takes part."""
    clock = WallClock(tmp_path / "clock")
    bench = await asyncio.to_thread(start_bench, POLICY, workers=2, environment=clock.environment)
    faults = []
    async with Load(bench.proxy.port, RATE, streams=10) as load:
        await asyncio.sleep(2.0)
        for off_by_s in STEPS:
            clock.step(off_by_s)
            faults.append((time.monotonic(), named(off_by_s)))
            await asyncio.sleep(FOR_S / 4)
            assert clock.shows(await asyncio.to_thread(time_told, bench))
            for replica in bench.replicas:
                assert not await bench.reasons(replica), named(off_by_s)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told


def time_told(bench: Bench) -> float:
    """The field ``Date`` of a response of the proxy itself."""
    connection = bench.proxy.client()
    try:
        connection.request("GET", "/fleets/none/here")
        response = connection.getresponse()
        response.read()
        return parsedate_to_datetime(response.headers["Date"]).timestamp()
    finally:
        connection.close()
