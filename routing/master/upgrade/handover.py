"""Handover of a hot restart: from an old master to a new one, and what a master does for both of them.

A shell, a supervisor or a container engine watches the process of the first master, which it has started.
Therefore that process stays, unless a service manager can be notified of another main process. It forwards
signals to its successor, and exits when the successor has exited. If it is killed, the successor exits too,
and leaves its workers to the master that is started next. A successor that has a successor itself does the
same, between the two.
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
    """The handovers of one master, from its predecessor and to its successor. ``channel``: to the
    predecessor, if a master has started this one."""

    def __init__(self, channel: socket.socket | None, new_master: NewMaster) -> None:
        self.successor: Successor | None = None
        """The master that has taken over."""
        self.handed_over = asyncio.Event()
        self._predecessor = None if channel is None else Predecessor(channel, new_master)
        self._remains_main_process = False
        """Whether this process stays as the main process, on behalf of its successor."""
        self._predecessor_is_main_process = True
        """Whether the predecessor stays as the main process; until it has handed over it is that."""

    @property
    def has_predecessor(self) -> bool:
        return self._predecessor is not None

    # --- before -------------------------------------------------------------------------------------

    async def receive_state(self) -> None:
        """Receive the predecessor's state, if there is a predecessor. Raises HandoverFailed."""
        if self._predecessor is not None:
            await self._predecessor.receive_state()

    async def take_over(self, is_ready: Callable[[], bool]) -> None:
        """Take over from the predecessor as soon as this master is ready. Raises HandoverFailed."""
        assert self._predecessor is not None
        await first_of(until(is_ready), self._predecessor.gone.wait())
        self._predecessor_is_main_process = (await self._predecessor.take_over()).stays
        log.info("this master has taken over")
        sd_notify.notify("READY=1")

    async def orphaned(self) -> None:
        """Return when this master must exit because its predecessor, the main process, has ended."""
        assert self._predecessor is not None
        await self._predecessor.gone.wait()
        if not self._predecessor_is_main_process:
            await asyncio.Event().wait()

    async def predecessor_finished(self) -> None:
        """If this master is the main process, wait until the predecessor has ended: when the main process of
        a service ends, the service manager kills its other processes."""
        if self._predecessor is not None and not self._predecessor_is_main_process:
            await self._predecessor.gone.wait()

    # --- after --------------------------------------------------------------------------------------

    def hand_over(self, successor: Successor, handover_state: HandoverState) -> None:
        self.successor, self._remains_main_process = successor, not sd_notify.is_present()
        log.info("process %d takes over; this one finishes what it has", successor.pid)
        self.handed_over.set()
        if not self._remains_main_process:
            # Sent first: the service manager accepts READY=1 from the main process only.
            sd_notify.notify(f"MAINPID={successor.pid}")
        successor.hand_over(handover_state, self._remains_main_process)

    def forward_signal(self, number: int) -> bool:
        """Forward a signal to the successor, if this process stays on its behalf. Returns whether it was
        forwarded."""
        if self.successor is None or not self._remains_main_process:
            return False
        log.info("%s: passed on to process %d", signal.Signals(number).name, self.successor.pid)
        self.successor.signal(number)
        return True

    async def wait_for_successor(self, status: int) -> int:
        """If this process stays on behalf of a successor, wait until that has ended, and return its exit
        status. Else return ``status``."""
        successor = self.successor
        if successor is None or not self._remains_main_process:
            return status
        if self._predecessor is not None and self._predecessor_is_main_process:
            await first_of(successor.gone(), self._predecessor.gone.wait())
            successor.disconnect()
        return await successor.gone()
