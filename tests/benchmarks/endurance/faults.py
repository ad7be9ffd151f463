"""The faults of the endurance run, one at a time, in a seeded order."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from random import Random

from tests.faults.bench import Replica
from tests.faults.chaos_proxy import MODES
from tests.faults.whole_stack import WholeStack

FOR_S = 15.0
STOPPED_S = 10.0
Fault = tuple[str, Callable[[], Awaitable[None]]]


class Faults:
    """Each fault is over when its function returns: everything runs again."""

    def __init__(self, whole: WholeStack, rng: Random) -> None:
        self._whole = whole
        self._rng = rng

    def in_turn(self) -> Iterator[Fault]:
        """Without end: all of them in some order, and again in another one."""
        while True:
            faults = self._all()
            self._rng.shuffle(faults)
            yield from faults

    def _all(self) -> list[Fault]:
        found: list[Fault] = [(f"replica: {mode}", self._chaos(mode)) for mode in MODES if mode != "pass"]
        found.append(("replica: kill -9", self._kill_replica))
        found.append(("replica: SIGSTOP", self._stop_replica))
        roles = ("proxy worker", "proxy master", "web", "celery worker", "beat", "conductor", "redis")
        found += [(f"{role}: kill -9", self._kill(role)) for role in roles]
        found.append(("redis: SIGSTOP", self._stop_redis))
        found.append(("up: kill -9, started again", self._kill_up))
        found.append(("up: SIGUSR1 (rolling restart)", self._tell_up(signal.SIGUSR1)))
        found.append(("up: SIGUSR2 (upgrade)", self._tell_up(signal.SIGUSR2)))
        return found

    def _any_replica(self) -> Replica:
        return self._rng.choice(self._whole.replicas)

    def _chaos(self, mode: str) -> Callable[[], Awaitable[None]]:
        async def fault() -> None:
            replica = self._any_replica()
            await asyncio.to_thread(replica.mode, mode)
            await asyncio.sleep(FOR_S)
            await asyncio.to_thread(replica.mode, "pass")

        return fault

    async def _kill_replica(self) -> None:
        replica = self._any_replica()
        await asyncio.to_thread(replica.kill)
        await asyncio.sleep(FOR_S)
        await asyncio.to_thread(replica.restart)

    async def _stop_replica(self) -> None:
        replica = self._any_replica()
        replica.signal(signal.SIGSTOP)
        await asyncio.sleep(FOR_S)
        replica.signal(signal.SIGCONT)

    def _kill(self, role: str) -> Callable[[], Awaitable[None]]:
        async def fault() -> None:
            before = await asyncio.to_thread(self._whole.kill, role)
            await asyncio.to_thread(self._whole.await_another, role, before)
            await asyncio.sleep(FOR_S)

        return fault

    async def _stop_redis(self) -> None:
        await asyncio.to_thread(self._whole.kill, "redis", signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        await asyncio.to_thread(self._whole.kill, "redis", signal.SIGCONT)
        await asyncio.sleep(FOR_S - STOPPED_S)

    async def _kill_up(self) -> None:
        await asyncio.to_thread(self._whole.kill_up)
        await asyncio.sleep(STOPPED_S)
        try:
            await asyncio.to_thread(self._whole.start_up)
        except AssertionError:
            # It is told, and the run goes on with a control plane.
            await asyncio.to_thread(self._whole.start_up)
            raise

    def _tell_up(self, number: signal.Signals) -> Callable[[], Awaitable[None]]:
        async def fault() -> None:
            self._whole.stack.process.send_signal(number)
            await asyncio.sleep(FOR_S)

        return fault
