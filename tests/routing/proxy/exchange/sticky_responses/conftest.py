"""The fleet of the tests of sticky responses."""

import pytest

from tests.routing.proxy.exchange.sticky_responses.response_fleet import Fleet, Server
from tests.routing.proxy.rig import Rig


@pytest.fixture
async def fleet(rig: Rig) -> Fleet:
    return Fleet(rig, await rig.client(), Server(await rig.replica("a")), Server(await rig.replica("b")))
