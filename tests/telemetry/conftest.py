"""The tests beside this file import models, so Django must be ready when they are collected."""

from collections.abc import Callable

import django
import pytest
import redis

django.setup()

from controlplane.telemetry.conductor import Conductor  # noqa: E402


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def conductor(redis_client: "redis.Redis", clock: Clock) -> Callable[..., Conductor]:
    def make(name: str = "one") -> Conductor:
        return Conductor(redis_client, name, clock=clock)

    return make
