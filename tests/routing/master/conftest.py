"""Fixtures of the tests of whole proxies; what they give is in :mod:`tests.proxy_process`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.proxy_process import Proxy, Publisher, Replica


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    """Two scripted replicas, ``a`` and ``b``."""
    both = [Replica("a"), Replica("b")]
    yield both
    for replica in both:
        replica.stop()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    """Starts proxies with the given arguments; all are gone when the test ends."""
    started: list[Proxy] = []

    def start(*arguments: str, **options: Any) -> Proxy:
        started.append(Proxy(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def publisher(redis_client: "redis.Redis") -> Publisher:
    return Publisher(redis_client)
