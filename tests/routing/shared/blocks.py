"""The shared counters of one host as its master makes them, for tests of what its workers share."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from routing.shared.shm_counters import SharedCounters


def block_fixture(workers: int, replicas: int) -> Any:
    """A fixture, for a module's name ``block``: counters of so many workers and replicas, for each test."""

    @pytest.fixture
    def block() -> Iterator[SharedCounters]:
        parent = SharedCounters.create(workers=workers, replicas=replicas)
        yield parent
        parent.close()
        os.close(parent.fd)

    return block
