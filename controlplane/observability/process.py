"""Which process this is, since when it runs, and whether its main loop is running."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from routing.contract.log_format import JsonLineFormatter, TextLineFormatter

ProcessRole = Literal["web", "worker", "beat", "conductor", "manage"]


class LoopHeartbeat:
    """When a loop's last iteration was. Safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()

    def record(self) -> None:
        self._at = self._clock()

    @property
    def age_s(self) -> float:
        return max(self._clock() - self._at, 0.0)


class ThisProcess:
    """What a process says of itself."""

    def __init__(self) -> None:
        self.role: ProcessRole = "manage"
        self.started = time.monotonic()
        self.loop_heartbeat = LoopHeartbeat()
        """Of the loop that does this process's work."""
        self.ready = threading.Event()
        """Set once the process takes work."""
        self.hanging: Callable[[], str] = str
        """What has run for longer than it may, in words; empty: nothing."""

    @property
    def name(self) -> str:
        """``role/host/pid``."""
        return f"{self.role}/{socket.gethostname()}/{os.getpid()}"

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self.started

    def set_role(self, role: ProcessRole) -> None:
        """Say which process this is: log lines, warnings among them, carry it from now on."""
        self.role = role
        for handler in all_handlers():
            if isinstance(handler.formatter, JsonLineFormatter | TextLineFormatter):
                handler.formatter.process = role


def all_handlers() -> Sequence[logging.Handler]:
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    return [handler for logger in loggers for handler in logger.handlers]


this_process = ThisProcess()
