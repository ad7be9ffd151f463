"""Supervised program: one process that is kept running, and is started anew with backoff when it ends."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from controlplane.supervision import processes
from controlplane.supervision.environment import PROJECT
from controlplane.supervision.log_file import LogFile
from controlplane.supervision.programs import Program
from controlplane.supervision.restart_backoff import RestartBackoff
from controlplane.supervision.running_process import Child, RunningProcess
from controlplane.supervision.stopping import Stoppable


class SupervisedProgram:
    """``tell`` is called with each line of news."""

    def __init__(self, program: Program, data: Path, logs: Path, tell: Callable[[str], None]) -> None:
        self.program = program
        self.process: RunningProcess | None = None
        self.log = LogFile(logs / f"{program.name}.log")
        self._data = data
        self._tell = tell
        self._started_at = 0.0
        self._backoff = RestartBackoff()
        self._due = 0.0

    def adopt(self, process: RunningProcess) -> None:
        """Keep this one running, which an earlier run has started."""
        self.process, self._started_at = process, time.monotonic()

    def keep(self) -> None:
        """Called several times a second: start it, or start it again after it has ended."""
        now = time.monotonic()
        if self.process is None:
            if now >= self._due:
                self._start(now)
            return
        end = self.process.end()
        if end is None:
            return
        self.process = None
        self._tell(f"{self.program.name} ended ({end}) and is restarted; see logs/{self.log.path.name}")
        self._wait_before_restart(now)

    def stop(self) -> Stoppable | None:
        """What is to be stopped."""
        if self.process is None:
            return None
        program = self.program
        return Stoppable(program.name, self.process, int(program.group), program.stop_s)

    def send(self, number: int) -> None:
        if self.process is not None:
            self.process.send(number)

    def kill(self) -> None:
        """End it at once; it is then started again."""
        self.send(signal.SIGKILL)

    def _wait_before_restart(self, now: float) -> None:
        self._due = now + self._backoff.ended(now - self._started_at)

    def _start(self, now: float) -> None:
        self._started_at = now
        try:
            self.process = self._spawn()
        except OSError as problem:
            # Descriptors, processes or memory have run out: a later start may succeed.
            self._tell(f"{self.program.name} could not be started: {problem.strerror or problem}")
            self._wait_before_restart(now)

    def _spawn(self) -> Child:
        program = self.program
        path = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, processes.STARTED_ON: str(self._data)}
        if program.metrics_port is not None:
            environment["SWITCHYARD_METRICS_LISTEN"] = f"127.0.0.1:{program.metrics_port}"
        output = self.log.opened()
        try:
            # A session of its own: Ctrl-C and a closed terminal are for ``up``, which stops all in order.
            process = subprocess.Popen(
                program.command,
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            if not isinstance(output, int):
                output.close()
        if program.nice:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, program.nice)
        return Child(process)
