"""Watchdog: ends a process whose main loop or task hangs, so that whatever started it starts it anew.

It runs in a thread of the process itself, and tells systemd that it does (``WatchdogSec``), which ends a
process that hangs as a whole. ``up`` asks each process from outside.
"""

import faulthandler
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from controlplane.datastores.availability import redis_state
from controlplane.observability.process import ThisProcess, this_process
from controlplane.observability.process_health import LOOP_LIMIT_S

CHECK_EVERY_S = 5.0
START_LIMIT_S = 300.0
"""For a process that does not take work yet."""
HANGING_GRACE_S = 15.0
"""For work beyond its time limit: a process that was frozen as a whole may finish it yet."""
EXIT_STATUS = 75
NOTIFY_SOCKET = "NOTIFY_SOCKET"

logger = logging.getLogger(__name__)
_started = threading.Event()


class Watchdog:
    """``waits_for``: ``ok``, or why the loop may be waiting for something that is away."""

    def __init__(
        self,
        process: ThisProcess,
        waits_for: Callable[[], str],
        limit_s: float = LOOP_LIMIT_S,
        check_every_s: float = CHECK_EVERY_S,
        grace_s: float = HANGING_GRACE_S,
    ) -> None:
        self._process = process
        self._waits_for = waits_for
        self._limit_s = limit_s
        self._check_every_s = check_every_s
        self._grace_s = grace_s
        self._stuck_s = self._hanging_s = 0.0
        self._checked_at = time.monotonic()

    def run(self) -> None:
        """Check again and again; returns never."""
        while True:
            time.sleep(self._check_every_s)
            if words := self.look():
                end_stuck(words)
            notify("WATCHDOG=1")

    def look(self) -> str:
        """Why the process is to end, in words; empty: it is well. A process that was frozen as a whole, with
        its machine say, is given time to go on."""
        now = time.monotonic()
        passed_s, self._checked_at = now - self._checked_at, now
        if self._is_stuck(passed_s):
            return f"the main loop has not run for {self._process.loop_heartbeat.age_s:.0f} s"
        return self._hanging(passed_s)

    def _is_stuck(self, passed_s: float) -> bool:
        """Whether the loop has not run for too long, while this thread has."""
        if self._process.loop_heartbeat.age_s < passed_s:
            self._stuck_s = 0.0
            return False
        self._stuck_s += min(passed_s, 2 * self._check_every_s)
        limit_s = self._limit_s if self._process.ready.is_set() else max(self._limit_s, START_LIMIT_S)
        if self._stuck_s < limit_s:
            return False
        if self._waits_for() != "ok":
            self._stuck_s = 0.0
            return False
        return True

    def _hanging(self, passed_s: float) -> str:
        """Work beyond its time limit that goes on and on: a thread cannot be ended, its process can."""
        words = self._process.hanging()
        if not words:
            self._hanging_s = 0.0
            return ""
        self._hanging_s += min(passed_s, 2 * self._check_every_s)
        return words if self._hanging_s > self._grace_s else ""


def start() -> None:
    """Watch this process until it ends."""
    if not _started.is_set():
        _started.set()
        watchdog = Watchdog(this_process, redis_state, LOOP_LIMIT_S, CHECK_EVERY_S, HANGING_GRACE_S)
        threading.Thread(target=watchdog.run, name="watchdog", daemon=True).start()


def end_stuck(words: str) -> None:
    """Log what each thread is doing, and end at once: what hangs cannot be ended in order."""
    logger.critical("%s: this process ends, to be started anew", words)
    with suppress(OSError, ValueError, AttributeError):
        faulthandler.dump_traceback()
    os._exit(EXIT_STATUS)


def notify(assignment: str) -> None:
    """Tell the service manager (sd_notify(3)). Without one nothing is done."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto(assignment.encode(), address)
