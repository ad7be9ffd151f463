"""Requests in flight are looked at again in short turns of the loop, however many they are."""

import asyncio
from collections.abc import Container
from typing import Any

import pytest

from routing.contract.client_keys import ALL_FLEETS
from routing.proxy.auth import rechecks
from routing.proxy.auth.rechecks import Rechecks
from tests.routing.proxy.auth.test_client_keys import KEY, OTHER, bearer, get, let_in
from tests.routing.proxy.auth.test_revocation import wait
from tests.routing.proxy.rig import Replica, Rig, until


class Clock:
    """Time that passes by work alone."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rechecks, "monotonic", clock)
    return clock


class Flight:
    """A client and its request, for which a look takes a tenth of a turn."""

    def __init__(self, clock: Clock, log: list["Flight"]) -> None:
        self.exchange: Flight | None = self
        self._clock, self._log = clock, log

    def recheck(self, narrowed: Container[object]) -> None:
        self._clock.now += rechecks.TURN_S / 10
        self._log.append(self)


async def test_a_turn_is_short_and_others_are_served_between_turns(clock: Clock) -> None:
    log: list[Flight] = []
    clients: Any = {Flight(clock, log) for _ in range(100)}
    turns = []
    Rechecks(asyncio.get_running_loop(), clients).begin()
    assert log == []
    while len(log) < 100:
        before = len(log)
        await asyncio.sleep(0)
        turns.append(len(log) - before)
    assert max(turns) <= 11
    assert set(log) == clients


async def test_after_a_change_meanwhile_all_are_looked_at_once_more(clock: Clock) -> None:
    """Once those that are left have been, so that many changes keep nobody from it."""
    log: list[Flight] = []
    clients: Any = {Flight(clock, log) for _ in range(30)}
    checks = Rechecks(asyncio.get_running_loop(), clients)
    checks.begin()
    await asyncio.sleep(0)
    seen = set(log)
    assert 0 < len(seen) < 30
    gone = next(iter(clients - seen))
    gone.exchange = None
    for _ in range(3):
        checks.begin()
    await until(lambda: len(log) == 29 + 29)
    assert set(log[:29]) == set(log[29:]) == clients - {gone}


async def test_one_that_fails_does_not_keep_the_others(clock: Clock) -> None:
    log: list[Flight] = []
    clients: Any = {Flight(clock, log) for _ in range(5)}
    problems: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    failing = next(iter(clients))
    failing.recheck = lambda narrowed: 1 / 0
    Rechecks(loop, clients).begin()
    await until(lambda: len(log) == 4)
    assert len(problems) == 1


async def test_ends_are_spread_over_turns_too(clock: Clock) -> None:
    checks = Rechecks(asyncio.get_running_loop(), [])
    ended: list[float] = []

    def end() -> None:
        clock.now += rechecks.TURN_S / 10
        ended.append(clock.now)

    for _ in range(50):
        checks.after_a_moment(end)
    await asyncio.sleep(0)
    assert ended == []
    clock.now += rechecks.FINISH_S
    turns = []
    async with asyncio.timeout(10):
        while len(ended) < 50:
            before = len(ended)
            await asyncio.sleep(0)
            turns.append(len(ended) - before)
    assert max(turns) <= 11


async def test_many_requests_of_a_revoked_key_end_and_others_go_on(rig: Rig, replica: Replica) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    replica.script = wait
    clients = [await rig.client() for _ in range(40)]
    for number, client in enumerate(clients):
        client.send(get(bearer(OTHER if number % 4 == 0 else KEY)))
    await until(lambda: len(replica.requests) == 40)
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    for number, client in enumerate(clients):
        if number % 4:
            assert (await client.answer()).status == 401
    await until(lambda: len(replica.open) == 10)
