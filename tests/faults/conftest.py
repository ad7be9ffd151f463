"""The fault bench as a fixture; what it gives is in :mod:`tests.faults.bench`."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from routing.contract.policy import Policy
from tests.faults.bench import Bench
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
