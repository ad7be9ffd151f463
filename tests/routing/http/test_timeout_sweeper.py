"""The timeout sweeper: one timer for all, only while something is registered."""

import asyncio

from routing.http.timeout_sweeper import TimeoutSweeper
from tests.routing.proxy.rig import until


class Member:
    def __init__(self, sweeper: TimeoutSweeper, limit: int) -> None:
        self.deadline = 0.0
        self.checks = 0
        self._sweeper, self._limit = sweeper, limit

    def check(self, now: float) -> None:
        self.checks += 1
        if self.checks == self._limit:
            self._sweeper.discard(self)


async def test_sweeper_runs_while_it_has_members() -> None:
    sweeper = TimeoutSweeper(asyncio.get_running_loop())
    first, second, later = Member(sweeper, 1), Member(sweeper, 2), Member(sweeper, 1)
    later.deadline = float("inf")
    for member in (first, second, later):
        sweeper.add(member)
    await until(lambda: second.checks == 2)
    assert (first.checks, later.checks) == (1, 0)
    sweeper.discard(later)
    await until(lambda: sweeper._timer is None)
