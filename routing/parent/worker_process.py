"""The parent's side of one worker process, from its start to its end."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from typing import Protocol

from routing.contract.telemetry import WorkerReport, decode_report
from routing.processes.control_channel import (
    Applied,
    ControlChannel,
    Drain,
    Explain,
    Explanation,
    KeptBy,
    Learned,
    LimitsShared,
    Message,
    ReplicaState,
    Reported,
    Serving,
    StopAccepting,
    Tables,
    WhoKeeps,
)
from routing.processes.questions import Questions
from routing.replica_state.kept_ids import Place
from routing.shared.counts import SharedCounts
from routing.shared.wake_ups import WakeUps

log = logging.getLogger(__name__)

SILENCE_LIMIT_S = 15.0
EXIT_GRACE_S = 1.0
ANSWER_LIMIT_S = 1.0
LOOK_EVERY_S = 0.01


Answer = dict[str, list[ReplicaState]]


class Owner(Protocol):
    """What a process needs of the parent."""

    def greeting(self, index: int, number: int) -> list[Message]:
        """First messages to a new worker: Start, and what it has to know."""

    def took(self, tables: Tables) -> None:
        """A worker has taken these from Redis."""

    def shares_limits(self, share: LimitsShared) -> None:
        """A worker has learned which part of the limits this proxy takes."""

    def learned(self, name: str, place: Place) -> None:
        """A worker has seen which replica keeps this."""

    def who_keeps(self, name: str) -> Place | None:
        """What any worker has learned of it."""

    def ended(self, report: WorkerReport | None) -> None:
        """A worker has ended; its last report."""


class WorkerProcess:
    """One worker. ``index``: its slot's; ``number``: of its cells in the shared counts, and in its name."""

    def __init__(
        self,
        index: int,
        number: int,
        listener: socket.socket,
        counts: SharedCounts,
        wakes: WakeUps,
        owner: Owner,
    ) -> None:
        self.index = index
        self.number = number
        self.serving = False
        """Whether it accepts connections."""
        self.manifest: str | None = None
        """Version of the table that it routes from; ``None``: it has none yet."""
        self._listener = listener
        self._counts = counts
        self._wakes = wakes
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: ControlChannel | None = None
        self._closed = asyncio.Event()
        self._heard_at = 0.0
        self._report: bytes | None = None
        self._reported_at = 0.0
        self._questions: Questions[Answer] = Questions(ANSWER_LIMIT_S)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def report(self) -> WorkerReport | None:
        """Its last report."""
        return None if self._report is None else decode_report(self._report)

    @property
    def report_age_s(self) -> float | None:
        """Seconds since that report; ``None``: there is none."""
        return None if self._report is None else max(time.monotonic() - self._reported_at, 0.0)

    def send(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def leave(self, quiet_s: float) -> None:
        """Let it finish what it has: another process accepts from its listener."""
        self.serving = False
        self.send(Drain(alone=True))
        self.send(StopAccepting(quiet_s=quiet_s, followed=True))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def check_pulse(self, now: float) -> None:
        """Kill a process that has said nothing for too long."""
        if self._process is not None and now - self._heard_at > SILENCE_LIMIT_S:
            log.error("worker %d has said nothing for %.0f s and is killed", self.index, SILENCE_LIMIT_S)
            self._heard_at = now
            self._process.kill()

    async def explain(self) -> Answer | None:
        """Ask the worker which replicas are eligible; ``None``: it is gone or too slow."""
        if not self.serving:
            return None
        return await self._questions.ask(lambda number: self.send(Explain(question=number)))

    async def run(self) -> str:
        """Run it to its end; what that was, in words."""
        try:
            return exit_words(await self._run())
        except OSError as problem:
            # For want of descriptors or processes: another try may do better.
            return f"could not be started: {problem.strerror or problem}"
        finally:
            self._bury()

    async def _run(self) -> int:
        """Start the process and wait for its end; its exit status, negative for a signal."""
        ours, theirs = socket.socketpair()
        process = self._spawn(theirs)
        theirs.close()
        self._process, self._heard_at = process, time.monotonic()
        ours.setblocking(False)
        try:
            _, self._channel = await asyncio.get_running_loop().create_unix_connection(
                lambda: ControlChannel(self._received, self._hung_up), sock=ours
            )
            for message in self._owner.greeting(self.index, self.number):
                self._channel.send(message)
            await self._closed.wait()
        except BaseException:
            process.kill()
            raise
        return await asyncio.to_thread(_end_of, process)

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        sockets = (control.fileno(), self._listener.fileno(), self._counts.fd)
        arguments = (*sockets, self.number, os.getpid(), *self._wakes.fds)
        inherited = (*sockets, *self._wakes.fds)
        command = [sys.executable, "-m", "routing.worker", *map(str, arguments)]
        # Its own process group: Ctrl-C in a terminal is for the parent, which drains first.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=inherited, process_group=0)

    def _bury(self) -> None:
        """Forget the process and what it had in flight."""
        self._counts.clear_worker(self.number)
        report = self.report
        self._process = self._channel = self._report = self.manifest = None
        self._owner.ended(report)

    def _hung_up(self) -> None:
        """The process is gone or about to go: nobody waits for its answers any more."""
        self.serving = False
        self._closed.set()
        self._questions.give_up()

    def _received(self, message: Message) -> None:
        self._heard_at = time.monotonic()
        match message:
            case Reported():
                self._report = message.report
                self._reported_at = self._heard_at
            case Applied():
                self.manifest = message.manifest
            case Tables():
                self._owner.took(message)
            case LimitsShared():
                self._owner.shares_limits(message)
            case Serving():
                self.serving = True
            case Explanation():
                self._questions.answered(message.question, message.fleets)
            case Learned():
                self._owner.learned(message.name, message.place)
            case WhoKeeps():
                place = self._owner.who_keeps(message.name)
                self.send(KeptBy(question=message.question, place=place))
            case _:
                raise ValueError(f"worker {self.index} sent a {type(message).__name__}")


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process that has closed its channel; blocks for EXIT_GRACE_S at most."""
    try:
        return process.wait(EXIT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def exit_words(status: int) -> str:
    """What an exit status says of a process's end."""
    return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
