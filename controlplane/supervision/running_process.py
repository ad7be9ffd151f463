"""Running process: a child of this one, or one that an earlier ``up`` has started and that is found again."""

import os
import signal
import subprocess
from contextlib import suppress
from typing import Protocol

from controlplane.supervision import processes


class RunningProcess(Protocol):
    """``started``: see :func:`controlplane.supervision.processes.started_at`."""

    pid: int
    started: str

    def end(self) -> str | None:
        """How it ended, in words; ``None``: it runs."""

    def send(self, number: int) -> None:
        """Send a signal, unless it has ended."""


class Child:
    """A process that this one has started."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.pid = process.pid
        self.started = processes.started_at(process.pid) or ""
        self._process = process

    def end(self) -> str | None:
        status = self._process.poll()
        if status is None:
            return None
        return f"terminated by {_name(-status)}" if status < 0 else f"exit status {status}"

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)


class Found:
    """A process of an earlier run. Its id alone does not tell it: another one may have that by now."""

    def __init__(self, pid: int, started: str) -> None:
        self.pid = pid
        self.started = started

    def end(self) -> str | None:
        return None if self.started and processes.started_at(self.pid) == self.started else "no exit status"

    def send(self, number: int) -> None:
        if self.end() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
