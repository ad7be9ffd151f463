"""A receiver, a destination at it, and an evaluator in simulated time on a real database."""

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from controlplane.alerts import destinations
from controlplane.alerts.delivery import deliver_due
from controlplane.alerts.evaluator import Decision, Evaluator
from controlplane.alerts.picture import Picture
from controlplane.models import AlertDestination
from tests.controlplane.alerts.pictures import picture
from tests.controlplane.alerts.receivers import HttpReceiver, http_receiver


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running


@pytest.fixture
def destination(receiver: HttpReceiver) -> Callable[..., AlertDestination]:
    def make(name: str = "pager", **settings: Any) -> AlertDestination:
        given = {"name": name, "kind": "webhook", "url": f"{receiver.url}/hook", **settings}
        return destinations.create(given, "tests").row

    return make


class Evaluated:
    """An evaluator that is shown pictures, by a clock that is moved."""

    def __init__(self) -> None:
        self.now = float(int(time.time()) - 7200)
        self.seen = picture()
        self.asked = 0
        self.evaluator = self.another()

    def another(self) -> Evaluator:
        """As a second process has, or one that was started anew."""
        return Evaluator(clock=lambda: self.now, look=lambda now: self.seen, deliver=self._ask)

    def _ask(self) -> None:
        self.asked += 1

    def see(self, seen: Picture, seconds: float = 0.0) -> list[Decision]:
        """Evaluates each 5 s, ``seconds`` long, and once at least."""
        self.seen = seen
        decisions = []
        for _ in range(max(int(seconds / 5), 1)):
            decision = self.evaluator.evaluate()
            assert decision is not None
            decisions.append(decision)
            self.now += 5
        return decisions


@pytest.fixture
def evaluated(fresh_stores: None) -> Evaluated:
    return Evaluated()


def deliver_all() -> int:
    return deliver_due(Random(1))
