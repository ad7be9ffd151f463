"""Handover from an old master to a new one, and a master's duties towards both.

A shell, a supervisor or a container engine watches the process of the first master, which it started. Unless
a service manager can be notified of another main process, that process therefore stays. It passes signals on,
ends when its successor ends, and when it is killed the successor ends too. A successor that has successors
itself does the same in between.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable

from routing.ipc.async_waits import first_of, until
from routing.master.upgrade import sd_notify
from routing.master.upgrade.handover_messages import HandoverState
from routing.master.upgrade.predecessor import NewMaster, Predecessor
from routing.master.upgrade.successor import Successor

log = logging.getLogger(__name__)


class Handover:
    """The handover state of one master. ``channel``: to its predecessor, if a master started it."""

    def __init__(self, channel: socket.socket | None, new_master: NewMaster) -> None:
        self.successor: Successor | None = None
        """Who has taken over."""
        self.handed_over = asyncio.Event()
        self._predecessor = None if channel is None else Predecessor(channel, new_master)
        self._stays = False
        """Whether this process stays, and stands for its successor."""
        self._predecessor_stays = True
        """Whether the predecessor stands for this one; until it has handed over it does."""

    @property
    def has_predecessor(self) -> bool:
        return self._predecessor is not None

    # --- before -------------------------------------------------------------------------------------

    async def receive_state(self) -> None:
        """Inherit, where there is a predecessor. Raises HandoverFailed."""
        if self._predecessor is not None:
            await self._predecessor.receive_state()

    async def take_over(self, is_ready: Callable[[], bool]) -> None:
        """Take over from the predecessor as soon as this master is ready. Raises HandoverFailed."""
        assert self._predecessor is not None
        await first_of(until(is_ready), self._predecessor.gone.wait())
        self._predecessor_stays = (await self._predecessor.take_over()).stays
        log.info("this parent has taken over")
        sd_notify.notify("READY=1")

    async def orphaned(self) -> None:
        """Return when this master is to end because its predecessor has."""
        assert self._predecessor is not None
        await self._predecessor.gone.wait()
        if not self._predecessor_stays:
            await asyncio.Event().wait()

    async def predecessor_finished(self) -> None:
        """When the main process of a service ends, whatever is left of the service is killed."""
        if self._predecessor is not None and not self._predecessor_stays:
            await self._predecessor.gone.wait()

    # --- after --------------------------------------------------------------------------------------

    def hand_over(self, successor: Successor, handover_state: HandoverState) -> None:
        self.successor, self._stays = successor, not sd_notify.is_present()
        log.info("process %d takes over; this one finishes what it has", successor.pid)
        self.handed_over.set()
        if not self._stays:
            # First: of what the successor says then, only a main process is believed.
            sd_notify.notify(f"MAINPID={successor.pid}")
        successor.hand_over(handover_state, self._stays)

    def forward_signal(self, number: int) -> bool:
        """Whether a signal was for the successor, which has it now."""
        if self.successor is None or not self._stays:
            return False
        log.info("%s: passed on to process %d", signal.Signals(number).name, self.successor.pid)
        self.successor.signal(number)
        return True

    async def wait_for_successor(self, status: int) -> int:
        """Stay as long as this process stands for a successor; the exit status, ``status`` if it does not."""
        successor = self.successor
        if successor is None or not self._stays:
            return status
        if self._predecessor is not None and self._predecessor_stays:
            await first_of(successor.gone(), self._predecessor.gone.wait())
            successor.disconnect()
        return await successor.gone()
