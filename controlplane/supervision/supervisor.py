"""Supervisor (process manager): keeps all programs of one data folder running, from a thread of its own.

Nothing that fails in here ends it: where a line or a file cannot be written (the disk is full), it does
without. When the whole process is killed, its programs go on. The next one finds them in the state file,
adopts those that are to outlive it, and starts the others anew.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from controlplane.supervision import processes, state_file
from controlplane.supervision.liveness_checks import LIMITS, CheckLimits, LivenessChecks
from controlplane.supervision.log_file import LogFile
from controlplane.supervision.programs import Program
from controlplane.supervision.state_file import StartedProgram, SupervisorState
from controlplane.supervision.stopping import Stoppable, stop_in_order, strays
from controlplane.supervision.supervised_program import SupervisedProgram

EVERY_S = 0.1
ROTATE_EVERY_S = 5.0
RETRY_STATE_EVERY_S = 5.0
GRACE_S = 0.5


class Supervisor:
    """``news`` is what it has to tell, taken out by whoever prints it."""

    def __init__(self, programs: list[Program], data: Path, logs: Path, limits: CheckLimits = LIMITS) -> None:
        self.news: deque[str] = deque(maxlen=200)
        self.adopted: set[str] = set()
        """Names of the programs that an earlier run has started."""
        self._data = data
        self._events = LogFile(logs / "supervisor.log")
        self._kept = [SupervisedProgram(program, data, logs, self._tell) for program in programs]
        self._checks = LivenessChecks(self._kept, limits, self._tell)
        self._settings = state_file.settings_digest()
        self._written: list[int] = []
        self._write_at = self._rotate_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    # --- before ------------------------------------------------------------------------------------------

    def take_over(self, is_hasty: Callable[[], bool], say: Callable[[str], None]) -> None:
        """Adopt what a killed run has left and what is to go on as it is; stop the rest of it."""
        left = state_file.read(self._data).running()
        others = []
        for one in left:
            match = next((kept for kept in self._kept if self._is_same(kept.program, one)), None)
            if match is None:
                others.append(Stoppable(one.name, one.process, one.group, one.stop_s))
            else:
                match.adopt(one.process)
                self.adopted.add(one.name)
        if left:
            say(f"an earlier start was killed; of what it has left, these go on: {_named(self.adopted)}")
        if others:
            say(f"these are stopped and started anew: {_named({one.name for one in others})}")
            stop_in_order(others, is_hasty, say)

    def _is_same(self, program: Program, left: StartedProgram) -> bool:
        same = program.outlives and program.name == left.name and program.command == left.command
        return same and left.settings == self._settings

    # --- while it runs -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start what does not run yet, in the given order; returns at once."""
        processes.adopt_orphans()
        self._look()
        self._thread.start()
        self._checks.start()

    def send(self, name: str, number: int) -> None:
        """Send a signal to the program of this name."""
        for one in self._kept:
            if one.program.name == name:
                one.send(number)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            try:
                self._look()
            except Exception as problem:
                self._tell(f"the supervisor goes on after an error: {problem!r}")
                self._over.wait(1.0)

    def _look(self) -> None:
        for one in self._kept:
            one.keep()
        processes.reap({one.process.pid for one in self._kept if one.process is not None})
        now = time.monotonic()
        self._write_state(now)
        if now >= self._rotate_at:
            self._rotate_at = now + ROTATE_EVERY_S
            for log in (*(one.log for one in self._kept), self._events):
                log.rotate()

    def _write_state(self, now: float) -> None:
        pids = [one.process.pid for one in self._kept if one.process is not None]
        if pids == self._written or now < self._write_at:
            return
        self._write_at = now + RETRY_STATE_EVERY_S
        try:
            state_file.write(self._data, self._state())
        except OSError as problem:
            self._tell(f"{state_file.NAME} cannot be written: {problem.strerror or problem}")
        else:
            self._written, self._write_at = pids, 0.0

    def _state(self) -> SupervisorState:
        running = [(one.program, one.process) for one in self._kept if one.process is not None]
        programs = [
            StartedProgram(
                name=program.name,
                pid=process.pid,
                started=process.started,
                command=program.command,
                settings=self._settings,
                group=int(program.group),
                stop_s=program.stop_s,
            )
            for program, process in running
        ]
        up = processes.started_at(os.getpid()) or ""
        return SupervisorState(up_pid=os.getpid(), up_started=up, programs=programs)

    def _tell(self, line: str) -> None:
        self.news.append(line)
        output = self._events.opened()
        if not isinstance(output, int):
            with suppress(OSError), output:
                output.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n".encode())

    # --- after -------------------------------------------------------------------------------------------

    def stop(
        self, is_hasty: Callable[[], bool], say: Callable[[str], None], spare: frozenset[str] = frozenset()
    ) -> list[int]:
        """End everything but the programs of the names ``spare``, in order. Returns process ids that are
        left all the same."""
        self._over.set()
        self._checks.stop()
        if self._thread.is_alive():
            self._thread.join()
        running = [found for one in self._kept if (found := one.stop()) is not None]
        if spare:
            stop_in_order([one for one in running if one.name not in spare], is_hasty, say)
            return []
        running += strays(self._data, [one.process.pid for one in running])
        stop_in_order(running, is_hasty, say)
        state_file.remove(self._data)
        return processes.end_left(self._data, GRACE_S)


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
