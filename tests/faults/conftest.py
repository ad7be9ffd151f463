"""Fixtures: the fault bench (:mod:`tests.faults.bench`), and all of Switchyard
(:mod:`tests.faults.whole_stack`)."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from routing.contract.policy import Policy
from tests.faults.bench import Bench
from tests.faults.whole_stack import WholeStack
from tests.proxy_process import Publisher


@pytest.fixture
def start_bench(
    tmp_path: Path, redis_client: "redis.Redis", redis_url: str
) -> Iterator[Callable[..., Bench]]:
    """Starts one with a policy and what else :class:`Bench` takes; it is gone when the test ends."""
    started: list[Bench] = []

    def start(policy: Policy, **fields: Any) -> Bench:
        started.append(Bench(tmp_path, Publisher(redis_client), redis_url, policy, **fields))
        return started[-1].ready()

    yield start
    for bench in started:
        bench.stop()


@pytest.fixture
def whole_stack(tmp_path: Path) -> Iterator[WholeStack]:
    """With replicas that get requests; it is gone when the test ends."""
    running = WholeStack(tmp_path)
    try:
        yield running.ready()
    finally:
        running.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What ``make test-faults`` cannot do here is no success: it fails, with what is missing."""
    report = yield
    if report.skipped and item.get_closest_marker("faults"):
        report.outcome = "failed"
        report.longrepr = str(call.excinfo.value if call.excinfo else report.longrepr)
    return report
