"""The tests beside this file import models, so Django must be ready when they are collected."""

from collections.abc import Callable

import django
import pytest
import redis

from tests.clock import Clock

django.setup()

from controlplane.telemetry.conductor import Conductor  # noqa: E402


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def conductor(redis_client: "redis.Redis", clock: Clock) -> Callable[..., Conductor]:
    def make(name: str = "one") -> Conductor:
        return Conductor(redis_client, name, clock=clock)

    return make
