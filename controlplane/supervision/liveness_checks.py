"""Liveness checks of ``up``: a program that does not answer for a minute is killed and restarted.

A process of the control plane whose main loop hangs ends by itself (its own watchdog); this is for one that
hangs as a whole, for the proxy's master process, whose workers then serve on, and for Redis, also where its
socket file is gone.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from controlplane.supervision import redis_server
from controlplane.supervision.http_checks import status_of
from controlplane.supervision.supervised_program import SupervisedProgram

ANSWER_LIMIT_S = 2.0


class CheckLimits(NamedTuple):
    every_s: float = 5.0
    silent: int = 12
    """So many checks in a row without an answer: it is stuck."""
    starting: int = 60
    """The same, of a process that has not answered yet."""


LIMITS = CheckLimits()


class LivenessChecks:
    """Of the programs that can be asked whether they live, from a thread of its own."""

    def __init__(
        self, programs: Sequence[SupervisedProgram], limits: CheckLimits, tell: Callable[[str], None]
    ) -> None:
        self._checks = [_Check(one, limits, tell) for one in programs if one.program.lives_at]
        self._every_s = limits.every_s
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="liveness", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            for check in self._checks:
                if not self._over.is_set():
                    check.look()


class _Check:
    """Counts checks and not seconds: after a while in which the whole machine stood still all are alive."""

    def __init__(self, checked: SupervisedProgram, limits: CheckLimits, tell: Callable[[str], None]) -> None:
        self._checked = checked
        self._limits = limits
        self._tell = tell
        self._pid = 0
        self._failed = 0
        self._has_answered = False

    def look(self) -> None:
        process, place = self._checked.process, self._checked.program.lives_at
        if process is None or place is None:
            return
        if process.pid != self._pid:
            self._pid, self._failed, self._has_answered = process.pid, 0, False
        if is_live(place):
            self._failed, self._has_answered = 0, True
            return
        self._failed += 1
        if self._failed >= (self._limits.silent if self._has_answered else self._limits.starting):
            self._failed = 0
            self._tell(f"{self._checked.program.name} does not answer and is killed")
            self._checked.kill()


def is_live(place: int | Path) -> bool:
    """Whether ``/livez`` at this port says so, or a Redis server answers at this socket. Any answer of that
    will do: one that loads its data, or has no memory left, lives."""
    if isinstance(place, int):
        return status_of(f"http://127.0.0.1:{place}/livez", limit_s=ANSWER_LIMIT_S) == 200
    return bool(redis_server.reply_to_ping(place, ANSWER_LIMIT_S))
