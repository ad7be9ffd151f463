"""The fault bench as a fixture; what it gives is in :mod:`tests.faults.bench`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from routing.contract.policy import Policy
from tests.faults.bench import Bench
from tests.proxy_process import Publisher


@pytest.fixture
def start_bench(
    tmp_path: Path, redis_client: "redis.Redis", redis_url: str
) -> Iterator[Callable[[Policy], Bench]]:
    """Starts one with a policy; it is gone when the test ends."""
    started: list[Bench] = []

    def start(policy: Policy) -> Bench:
        started.append(Bench(tmp_path, Publisher(redis_client), redis_url, policy))
        return started[-1].ready()

    yield start
    for bench in started:
        bench.stop()
