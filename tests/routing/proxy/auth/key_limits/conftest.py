"""Fixtures of the tests of key limits."""

from functools import partial

import pytest

from tests.clock import Clock
from tests.routing.proxy.rig import (
    Replica,
    Rig,
)


@pytest.fixture
async def replica(rig: Rig) -> Replica:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    return replica


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the windows; everything else goes by the real one."""
    clock = Clock(1000.5)
    from routing.shared import key_quotas

    monkeypatch.setattr(key_quotas, "KeyQuota", partial(key_quotas.KeyQuota, clock=clock))
    return clock
