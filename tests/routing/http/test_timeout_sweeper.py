"""The timeout sweeper: one timer for all, only while something is registered."""

import asyncio
import itertools
import socket
import time

import uvloop

from routing.http.timeout_sweeper import AT_ONCE, LATE_S, PERIOD_S, TimeoutSweeper
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


async def test_thousands_are_checked_in_slices_between_which_others_run() -> None:
    sweeper = TimeoutSweeper(asyncio.get_running_loop())
    members = [Member(sweeper, 1) for _ in range(10 * AT_ONCE)]
    for member in members:
        sweeper.add(member)
    checked = [0]
    while checked[-1] < len(members):
        await asyncio.sleep(0)
        checked.append(sum(member.checks for member in members))
    assert max(after - before for before, after in itertools.pairwise(checked)) == AT_ONCE
    assert sweeper._timer is None


async def test_who_leaves_during_a_sweep_is_not_checked_and_an_error_stops_nothing() -> None:
    """The order is the sweeper's own: whoever is checked first has the others leave, and fails."""
    loop = asyncio.get_running_loop()
    sweeper = TimeoutSweeper(loop)
    errors: list[BaseException | None] = []
    loop.set_exception_handler(lambda _, context: errors.append(context.get("exception")))

    class Failing(Member):
        def check(self, now: float) -> None:
            self.checks += 1
            for member in failing:
                sweeper.discard(member)
            raise ValueError

    failing = [Failing(sweeper, 1) for _ in range(10)]
    staying = [Member(sweeper, 2) for _ in range(10)]
    for member in (*failing, *staying):
        sweeper.add(member)
    await until(lambda: all(member.checks == 2 for member in staying))
    assert sum(member.checks for member in failing) == 1
    assert [type(error) for error in errors] == [ValueError]


def test_what_has_come_while_the_loop_was_held_is_read_first() -> None:
    """A socket that is readable and a limit that is over: nobody is late because this process slept. On the
    loop of the workers, which runs timers first."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(read_and_checked()) == ["read", "checked"]


async def read_and_checked() -> list[str]:
    """What comes first after the loop was held."""
    loop = asyncio.get_running_loop()
    left, right = socket.socketpair()
    holding, held = socket.socketpair()
    order: list[str] = []

    class Late(Member):
        def check(self, now: float) -> None:
            order.append("checked")
            super().check(now)

    def read() -> None:
        order.append("read")
        right.recv(1)

    def hold() -> None:
        """What is readable was asked for before; what comes now is seen with the next turn."""
        held.recv(1)
        left.send(b"x")
        time.sleep(PERIOD_S + 2 * LATE_S)

    with left, right, holding, held:
        loop.add_reader(right, read)
        loop.add_reader(held, hold)
        sweeper = TimeoutSweeper(loop)
        sweeper.add(Late(sweeper, 1))
        holding.send(b"x")
        await until(lambda: len(order) == 2)
        loop.remove_reader(right)
        loop.remove_reader(held)
    return order
