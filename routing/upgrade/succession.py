"""Whose place a parent has taken, and who takes its own: what it owes to either.

Whoever started the first parent (a shell, a supervisor, a container's engine) watches that process. Unless a
service manager can be told of another one, it stays therefore: it passes signals on, ends when its successor
ends, and takes it along when it is killed. A successor that has successors itself does the same in between.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable

from routing.processes.waits import first_of, until
from routing.upgrade import service_manager
from routing.upgrade.letters import Estate
from routing.upgrade.predecessor import Heir, Predecessor
from routing.upgrade.successor import Successor

log = logging.getLogger(__name__)


class Succession:
    """Of one parent. ``channel``: to the one that started it to take its place, if one did."""

    def __init__(self, channel: socket.socket | None, heir: Heir) -> None:
        self.follower: Successor | None = None
        """Who has taken over."""
        self.handed_over = asyncio.Event()
        self._predecessor = None if channel is None else Predecessor(channel, heir)
        self._stands = False
        """Whether this process stands for its follower."""
        self._is_stood_for = True
        """Whether the predecessor stands for this one; until it has handed over it does."""

    @property
    def has_predecessor(self) -> bool:
        return self._predecessor is not None

    # --- before -------------------------------------------------------------------------------------

    async def meet(self) -> None:
        """Inherit, where there is a predecessor. Raises HandoverFailed."""
        if self._predecessor is not None:
            await self._predecessor.meet()

    async def take_over(self, is_ready: Callable[[], bool]) -> None:
        """Take the predecessor's place as soon as this parent is ready. Raises HandoverFailed."""
        assert self._predecessor is not None
        await first_of(until(is_ready), self._predecessor.gone.wait())
        self._is_stood_for = (await self._predecessor.take_over()).stays
        log.info("this parent has taken over")
        service_manager.notify("READY=1")

    async def orphaned(self) -> None:
        """Return when this parent is to end because its predecessor has."""
        assert self._predecessor is not None
        await self._predecessor.gone.wait()
        if not self._is_stood_for:
            await asyncio.Event().wait()

    async def predecessor_finished(self) -> None:
        """When the main process of a service ends, whatever is left of the service is killed."""
        if self._predecessor is not None and not self._is_stood_for:
            await self._predecessor.gone.wait()

    # --- after --------------------------------------------------------------------------------------

    def hand_over(self, follower: Successor, estate: Estate) -> None:
        self.follower, self._stands = follower, not service_manager.listens()
        log.info("process %d takes over; this one finishes what it has", follower.pid)
        self.handed_over.set()
        if not self._stands:
            # First: of what the follower says then, only a main process is believed.
            service_manager.notify(f"MAINPID={follower.pid}")
        follower.hand_over(estate, self._stands)

    def passed_on(self, number: int) -> bool:
        """Whether a signal was for the follower, which has it now."""
        if self.follower is None or not self._stands:
            return False
        log.info("%s: passed on to process %d", signal.Signals(number).name, self.follower.pid)
        self.follower.signal(number)
        return True

    async def stand(self, status: int) -> int:
        """Stay as long as this process stands for a follower; the exit status, ``status`` if it does not."""
        follower = self.follower
        if follower is None or not self._stands:
            return status
        if self._predecessor is not None and self._is_stood_for:
            await first_of(follower.gone(), self._predecessor.gone.wait())
            follower.leave_it()
        return await follower.gone()
