"""Fixtures of the tests of traces."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.otlp_receiver import Receiver
from tests.proxy_process import Proxy
from tests.routing.master.tracing.model_server import ModelServer, chat_fleet


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.stop()


@pytest.fixture
def servers() -> Iterator[list[ModelServer]]:
    """Two scripted model servers, ``a`` and ``b``, whose streams are released."""
    both = [ModelServer("a"), ModelServer("b")]
    for server in both:
        server.release.set()
    yield both
    for server in both:
        server.held.set()
        server.stop()


@pytest.fixture
def traced(
    tmp_path: Path, receiver: Receiver, servers: list[ModelServer], proxy: Callable[..., Proxy]
) -> Callable[..., Proxy]:
    """Starts a proxy that exports to the receiver, with one worker, in front of the servers."""

    def start(*flags: str, environment: dict[str, str] | None = None, **fleet: Any) -> Proxy:
        file = chat_fleet(tmp_path / "fleets.yaml", servers, **fleet)
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **(environment or {})}
        return proxy("--fleets", str(file), "--workers", "1", *flags, environment=variables).ready()

    return start
