"""The parent's side of one worker: start it, talk to it, and start a successor when it dies.

A slot is a place in the proxy, not a process: index, listener and cells in the shared counts stay
while processes come and go. A worker that stops talking is killed, for connections that the kernel
gives to its listener would wait for ever.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from typing import Protocol

from routing.contract.telemetry import WorkerReport, decode_report
from routing.control_channel import (
    Applied,
    ControlChannel,
    Explain,
    Explanation,
    KeptBy,
    Learned,
    LimitsShared,
    Message,
    ReplicaState,
    Reported,
    Serving,
    Tables,
    WhoKeeps,
)
from routing.kept_ids import KeptIds
from routing.questions import Questions
from routing.shared_counts import SharedCounts
from routing.wake_ups import WakeUps

log = logging.getLogger(__name__)

SILENCE_LIMIT_S = 15.0
STEADY_AFTER_S = 10.0
"""A worker that lived this long is not part of a crash loop."""
RESPAWN_DELAYS_S = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0)
EXIT_GRACE_S = 1.0
ANSWER_LIMIT_S = 1.0


_Answer = dict[str, list[ReplicaState]]


class Owner(Protocol):
    """What a slot needs of the parent."""

    kept: KeptIds
    """What all workers have learned."""

    def greeting(self, index: int) -> list[Message]:
        """First messages to a new worker: Start, and what it has to know."""

    def took(self, tables: Tables) -> None:
        """A worker has taken these from Redis."""

    def shares_limits(self, share: LimitsShared) -> None:
        """A worker has learned which part of the limits this proxy takes."""

    def ended(self, report: WorkerReport | None) -> None:
        """A worker has ended; its last report."""


class WorkerSlot:
    """One worker and its successors."""

    def __init__(
        self, index: int, listener: socket.socket, counts: SharedCounts, wakes: WakeUps, owner: Owner
    ) -> None:
        self.index = index
        self.restarts = 0
        self.serving = False
        """Whether the present process accepts connections."""
        self.manifest: str | None = None
        """Version of the table that the present process routes from; ``None``: it has none yet."""
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
        self._leaving = False
        self._questions: Questions[_Answer] = Questions(ANSWER_LIMIT_S)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def report(self) -> WorkerReport | None:
        """The present process's last report."""
        return None if self._report is None else decode_report(self._report)

    @property
    def report_age_s(self) -> float | None:
        """Seconds since that report; ``None``: there is none."""
        return None if self._report is None else max(time.monotonic() - self._reported_at, 0.0)

    def send(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)

    async def run(self) -> None:
        """Keep a worker running until told to let it leave."""
        deaths = 0
        while not self._leaving:
            started = time.monotonic()
            end = await self._one_life()
            if self._leaving:
                return
            lived_s = time.monotonic() - started
            deaths = 1 if lived_s >= STEADY_AFTER_S else deaths + 1
            delay_s = RESPAWN_DELAYS_S[min(deaths, len(RESPAWN_DELAYS_S)) - 1]
            self.restarts += 1
            log.error(
                "worker %d %s after %.1f s; its successor starts in %.1f s",
                self.index,
                end,
                lived_s,
                delay_s,
            )
            await asyncio.sleep(delay_s)

    def let_leave(self) -> None:
        """From now on the end of the process is no death; no successor is started."""
        self._leaving = True

    def kill(self) -> None:
        """End the process at once, without a successor."""
        self._leaving = True
        if self._process is not None:
            self._process.kill()

    def check_pulse(self, now: float) -> None:
        """Kill a process that has said nothing for too long."""
        if self._process is not None and now - self._heard_at > SILENCE_LIMIT_S:
            log.error("worker %d has said nothing for %.0f s and is killed", self.index, SILENCE_LIMIT_S)
            self._heard_at = now
            self._process.kill()

    async def explain(self) -> _Answer | None:
        """Ask the worker which replicas are eligible; ``None``: it is gone or too slow."""
        if not self.serving:
            return None
        return await self._questions.ask(lambda number: self.send(Explain(question=number)))

    async def _one_life(self) -> str:
        """Run a process to its end; what that was, in words."""
        try:
            return exit_words(await self._one_process())
        except OSError as problem:
            # For want of descriptors or processes: another try may do better.
            self._buried()
            return f"could not be started: {problem.strerror or problem}"

    async def _one_process(self) -> int:
        """Start a process and wait for its end; its exit status, negative for a signal."""
        ours, theirs = socket.socketpair()
        process = self._spawn(theirs)
        theirs.close()
        self._process, self._heard_at = process, time.monotonic()
        self._closed.clear()
        ours.setblocking(False)
        try:
            _, self._channel = await asyncio.get_running_loop().create_unix_connection(
                lambda: ControlChannel(self._received, self._hung_up), sock=ours
            )
            for message in self._owner.greeting(self.index):
                self._channel.send(message)
            await self._closed.wait()
        except BaseException:
            process.kill()
            raise
        status = await asyncio.to_thread(_end_of, process)
        self._buried()
        return status

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        sockets = (control.fileno(), self._listener.fileno(), self._counts.fd)
        arguments = (*sockets, self.index, os.getpid(), *self._wakes.fds)
        inherited = (*sockets, *self._wakes.fds)
        command = [sys.executable, "-m", "routing.worker", *map(str, arguments)]
        # Its own process group: Ctrl-C in a terminal is for the parent, which drains first.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=inherited, process_group=0)

    def _buried(self) -> None:
        """Forget the process and what it had in flight."""
        self._counts.clear_worker(self.index)
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
                self._owner.kept.learn(message.name, message.place, self._heard_at)
            case WhoKeeps():
                place = self._owner.kept.find(message.name, self._heard_at)
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
