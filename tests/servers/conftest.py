"""The servers of this folder, started at the same time when the first test wants one."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from bootstrap.servers import COMMAND, installed
from tests import needs
from tests.servers.running import LitServe, LlamaCpp, MLServer, ModelServer

MISSING = f"the real model servers are not installed: {COMMAND}"


class Servers(NamedTuple):
    """Two of each kind. The second MLServer and the second LitServe wait for their gates."""

    llama: tuple[LlamaCpp, LlamaCpp]
    mlserver: tuple[MLServer, MLServer]
    litserve: tuple[LitServe, LitServe]

    def all(self) -> list[ModelServer]:
        return [*self.llama, *self.mlserver, *self.litserve]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    needs.need(installed(), MISSING)
    folder = tmp_path_factory.mktemp("servers")
    started = Servers(
        (LlamaCpp("llama-a", folder), LlamaCpp("llama-b", folder)),
        (MLServer("mlserver-a", folder), MLServer("mlserver-b", folder)),
        (LitServe("litserve-a", folder), LitServe("litserve-b", folder)),
    )
    try:
        for server in (started.mlserver[0], started.litserve[0]):
            server.gate.touch()
        for server in started.all():
            server.start()
        yield started
    finally:
        for server in started.all():
            if server.process is not None:
                server.stop()
