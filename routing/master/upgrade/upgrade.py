"""Binary upgrade (hot restart): a new master takes over. If it does not start, the present one goes on."""

import asyncio
import logging
import signal
import socket
import time
from typing import Any, Protocol

from routing.master.upgrade.handover_messages import HandoverState
from routing.master.upgrade.successor import NotReady, Successor
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.sticky_ids import ReplicaRef

log = logging.getLogger(__name__)

EXIT_TIMEOUT_S = 1.0
"""How long a stopped successor may take to exit, besides the time to finish its requests."""


class OldMaster(Protocol):
    """The sending side of a handover. The master, which lies above this package, implements it."""

    def sockets(self) -> tuple[list[socket.socket], socket.socket | None]:
        """The listeners, and the admin listener."""

    prefixes: PrefixMemory

    def handover_state(self) -> HandoverState: ...
    def all_sticky_ids(self) -> list[tuple[str, ReplicaRef]]: ...
    def hand_over(self, successor: Successor) -> None:
        """The successor is ready: hand over to it."""


class Upgrade:
    """The upgrades of one master. ``drain_s``: how long a failed successor may finish its requests."""

    def __init__(self, old_master: OldMaster, drain_s: float) -> None:
        self.failed = 0
        """How many upgrades have failed."""
        self._old_master = old_master
        self._drain_s = drain_s
        self._successor: Successor | None = None
        self._cancelled: Successor | None = None
        self._task: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._last: dict[str, Any] = {}

    @property
    def under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def successor(self) -> Successor | None:
        """The new master, while it starts and after it has taken over."""
        return self._successor

    def begin(self) -> None:
        """Begin an upgrade, unless one is under way."""
        if not self.under_way:
            self._began_at = time.monotonic()
            self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """The proxy stops: stop a successor that is starting, too."""
        if self._task is not None and self.under_way:
            self._task.cancel()
            self._cancelled, self._successor = self._successor, None
            if self._cancelled is not None:
                self._cancelled.signal(signal.SIGTERM)

    async def wait_cancelled(self) -> None:
        """Wait for the end of the successor that :meth:`cancel` has stopped."""
        if self._cancelled is not None:
            await self._cancelled.end(EXIT_TIMEOUT_S)

    def status(self) -> dict[str, Any]:
        """What ``/status`` shows."""
        if not self.under_way:
            return {"under_way": False, **self._last}
        pid = 0 if self._successor is None else self._successor.pid
        return {"under_way": True, "successor": pid, "for_s": round(time.monotonic() - self._began_at, 3)}

    async def _run(self) -> None:
        log.info("upgrade: a new master is started to take the place of this one")
        self._successor = successor = Successor()
        listeners, admin = self._old_master.sockets()
        try:
            await successor.start(
                listeners,
                admin,
                self._old_master.prefixes,
                self._old_master.handover_state(),
                self._old_master.all_sticky_ids(),
            )
        except NotReady as problem:
            self.failed += 1
            took_s = round(time.monotonic() - self._began_at, 3)
            self._last = {"last": "failed", "why": f"the successor {problem}", "took_s": took_s}
            log.error("the upgrade has failed, and this master goes on: the successor %s", problem)
            successor.signal(signal.SIGTERM)
            await successor.end(self._drain_s + EXIT_TIMEOUT_S)
            self._successor = None
        else:
            self._old_master.hand_over(successor)
