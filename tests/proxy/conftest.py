"""Fixtures of the proxy tests; what they give is in :mod:`tests.proxy.rig`."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from tests.proxy.rig import Client, Replica, Rig


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the proxy runs on in production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A proxy with default settings; after the test its books must balance."""
    rig = Rig()
    await rig.start()
    yield rig
    await rig.stop()


@pytest.fixture
async def replica(rig: Rig) -> Replica:
    """The one replica of the default fleet, generic protocol."""
    replica = await rig.replica()
    rig.fleet(replica)
    return replica


@pytest.fixture
async def client(rig: Rig, replica: Replica) -> Client:
    return await rig.client()
