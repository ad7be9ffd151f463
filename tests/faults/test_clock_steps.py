"""The wall clock is set, forward and backward, by an hour and by days, while clients go on asking."""

import asyncio
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import cast

import pytest
import redis

from routing.contract import redis_keys
from tests.faults.amounts import FOR_S, RATE
from tests.faults.bench import Bench, failures, listed
from tests.faults.calm import await_calm
from tests.faults.load import Load
from tests.faults.test_each_mode import POLICY
from tests.faults.wall_clock import STEPS, WallClock, named
from tests.faults.whole_stack import WholeStack
from tests.proxy_process import until
from tests.system.stack import Stack

GOES_ON_S = 120.0

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


async def test_the_clock_of_the_whole_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy, control plane and Redis: live frames go on, probes and leases too, and no epoch is raised."""
    clock = WallClock(tmp_path / "clock")
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    running = await asyncio.to_thread(WholeStack, tmp_path)
    try:
        await asyncio.to_thread(running.ready)
        await stepped(running, clock)
    finally:
        await asyncio.to_thread(running.stop)


async def stepped(running: WholeStack, clock: WallClock) -> None:
    stack, faults = running.stack, []
    epoch = await asyncio.to_thread(epoch_of, stack)
    async with Load(running.proxy_port, RATE, streams=10) as load:
        await asyncio.sleep(2.0)
        for number, off_by_s in enumerate(STEPS):
            clock.step(off_by_s)
            faults.append((time.monotonic(), named(off_by_s)))
            frames = await asyncio.to_thread(
                until, lambda: frames_go_on(stack, clock), "live frames", GOES_ON_S
            )
            assert frames
            await asyncio.to_thread(stack.api, "PATCH", "/fleets/echo", {"aliases": [f"step-{number}"]})
            await asyncio.to_thread(await_calm, running)
            assert running.eligible() == {one.name for one in running.replicas}, named(off_by_s)
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told
    assert await asyncio.to_thread(epoch_of, stack) == epoch
    down = [one for one in stack.api("GET", "/events")["results"] if "down" in str(one)]
    assert not down


def frames_go_on(stack: Stack, clock: WallClock) -> bool:
    live = stack.api("GET", "/live")
    return live["frame"] is not None and clock.shows(live["frame"]["at"], within_s=10.0)


def epoch_of(stack: Stack) -> bytes:
    with redis.Redis(unix_socket_path=str(stack.data / "redis" / "redis.sock")) as client:
        return cast("list[bytes]", client.hmget(redis_keys.fleet_key("echo"), "epoch"))[0]


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
