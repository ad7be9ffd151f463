"""Fixtures of the proxy tests; what they give is in :mod:`tests.routing.proxy.rig`."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Client, Replica, Rig, StartRig, Tls


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the proxy runs on in production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def tls() -> Tls | None:
    """Plain HTTP, unless a module says otherwise."""
    return None


@pytest.fixture
async def start_rig(tls: Tls | None) -> AsyncIterator[StartRig]:
    """Starts proxies with settings of one's own; after the test their books must balance."""
    rigs = []

    async def start(settings: ProxySettings) -> Rig:
        rig = Rig(tls)
        rigs.append(rig)
        await rig.start(settings)
        return rig

    yield start
    for rig in rigs:
        await rig.stop()


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    """A proxy with default settings."""
    return await start_rig(ProxySettings())


@pytest.fixture
async def replica(rig: Rig) -> Replica:
    """The one replica of the default fleet, generic protocol."""
    replica = await rig.replica()
    rig.fleet(replica)
    return replica


@pytest.fixture
async def client(rig: Rig, replica: Replica) -> Client:
    return await rig.client()
