"""One running stack for all tests in this folder; they go from the first request to the last process."""

from collections.abc import Iterator

import pytest

from tests.system.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("up"))
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()
