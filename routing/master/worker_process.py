"""Worker process as the master sees it: spawn, control channel, heartbeat, exit."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from typing import NamedTuple, Protocol

from routing.contract.telemetry import WorkerReport, decode_report
from routing.ipc.control_channel import (
    Applied,
    ControlChannel,
    ControlMessage,
    Drain,
    LimitsShared,
    QueryReplicaStates,
    QuerySticky,
    ReplicaState,
    ReplicaStates,
    Serving,
    StickyLearned,
    StickyReply,
    StopAccepting,
    Tables,
    TelemetryReport,
    TracesFinished,
)
from routing.ipc.pending_requests import PendingRequests
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.shm_counters import SharedCounters
from routing.shared.sticky_ids import ReplicaRef
from routing.shared.totals_block import TotalsBlock
from routing.shared.worker_wakeup import WorkerWakeups

log = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_S = 15.0
EXIT_GRACE_S = 1.0
REPLY_TIMEOUT_S = 1.0
POLL_EVERY_S = 0.01


ReplicaStatesByFleet = dict[str, list[ReplicaState]]


class WorkerOwner(Protocol):
    """What a worker process needs of the master. A protocol: the master, which implements it, makes these
    processes, and the import contracts forbid a cycle even between types."""

    def initial_messages(self, index: int, number: int) -> list[ControlMessage]:
        """The first messages to a new worker: its bootstrap, then siblings, drains, limits and table."""

    def on_tables_applied(self, tables: Tables) -> None:
        """A worker has read and applied these from Redis."""

    def on_limits_shared(self, share: LimitsShared) -> None:
        """A worker has learned this proxy's share of the limits."""

    def on_sticky_learned(self, name: str, replica_ref: ReplicaRef) -> None:
        """A worker has learned which replica stores the response with this id."""

    def on_sticky_correction(self, name: str, replica_ref: ReplicaRef) -> None:
        """A worker has it from Redis, so it holds, whatever this host's workers have learned."""

    def find_sticky(self, name: str) -> ReplicaRef | None:
        """The replica that stores it, if any worker has learned that."""

    def on_traces(self, traces: TracesFinished) -> None:
        """A worker has recorded these."""

    def on_exit(self, report: WorkerReport | None) -> None:
        """A worker has ended. ``report``: its last one."""


class SharedMemory(NamedTuple):
    """What all workers of a master share."""

    counts: SharedCounters
    wakeups: WorkerWakeups
    prefixes: PrefixMemory
    totals: TotalsBlock


class WorkerProcess:
    """One process of a worker. ``index``: the worker's; ``number``: of the process's shared-memory counters,
    also in its name."""

    def __init__(
        self,
        index: int,
        number: int,
        listener: socket.socket,
        memory: SharedMemory,
        owner: WorkerOwner,
    ) -> None:
        self.index = index
        self.number = number
        self.serving = False
        """Whether it accepts connections."""
        self.manifest: str | None = None
        """Version of the manifest that it routes from; ``None``: it has none yet."""
        self._listener = listener
        self._memory = memory
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: ControlChannel | None = None
        self._closed = asyncio.Event()
        self._heard_at = 0.0
        self._report: bytes | None = None
        self._reported_at = 0.0
        self._pending: PendingRequests[ReplicaStatesByFleet] = PendingRequests(REPLY_TIMEOUT_S)

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

    def send(self, message: ControlMessage) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def leave(self, quiet_s: float) -> None:
        """Let it finish its requests, while another process accepts from its listener."""
        self.serving = False
        self.send(Drain(alone=True))
        self.send(StopAccepting(quiet_s=quiet_s, followed=True))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def restart_heartbeat(self, now: float) -> None:
        """The master was held itself, so what the process has sent meanwhile is not read yet."""
        self._heard_at = now

    def check_heartbeat(self, now: float) -> None:
        """Kill a process that has sent nothing for too long."""
        if self._process is not None and now - self._heard_at > HEARTBEAT_TIMEOUT_S:
            log.error("worker %d has said nothing for %.0f s and is killed", self.index, HEARTBEAT_TIMEOUT_S)
            self._heard_at = now
            self._process.kill()

    async def replica_states(self) -> ReplicaStatesByFleet | None:
        """Ask the worker which replicas are eligible; ``None``: it is gone or too slow."""
        if not self.serving:
            return None
        return await self._pending.ask(lambda number: self.send(QueryReplicaStates(question=number)))

    async def run(self) -> str:
        """Run the process. Returns how it ended, in words."""
        try:
            return exit_words(await self._run())
        except OSError as problem:
            # Descriptors or processes have run out: a later start may succeed.
            return f"could not be started: {problem.strerror or problem}"
        finally:
            self._on_exit()

    async def _run(self) -> int:
        """Start the process and wait for its end. Returns its exit status, negative for a signal."""
        ours, theirs = socket.socketpair()
        process = self._spawn(theirs)
        theirs.close()
        self._process, self._heard_at = process, time.monotonic()
        ours.setblocking(False)
        try:
            _, self._channel = await asyncio.get_running_loop().create_unix_connection(
                lambda: ControlChannel(self._on_message, self._on_channel_closed), sock=ours
            )
            for message in self._owner.initial_messages(self.index, self.number):
                self._channel.send(message)
            await self._closed.wait()
        except BaseException:
            process.kill()
            raise
        return await asyncio.to_thread(_end_of, process)

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        memory = self._memory
        sockets = (control.fileno(), self._listener.fileno(), memory.counts.fd)
        arguments = (*sockets, self.number, os.getpid(), *memory.wakeups.fds)
        # The last ones are named in the bootstrap: a worker of an older version would take them for wakeups.
        inherited = (*sockets, *memory.wakeups.fds, memory.prefixes.fd, memory.totals.fd)
        command = [sys.executable, "-m", "routing.worker", *map(str, arguments)]
        # Its own process group: Ctrl-C in a terminal is for the master, which drains first.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=inherited, process_group=0)

    def _on_exit(self) -> None:
        """Forget the process and what it had in flight."""
        self._memory.counts.clear_worker(self.number)
        report = self.report
        self._process = self._channel = self._report = self.manifest = None
        self._owner.on_exit(report)

    def _on_channel_closed(self) -> None:
        """The process has ended or is about to: its pending requests get no reply."""
        self.serving = False
        self._closed.set()
        self._pending.resolve_all_empty()

    def _on_message(self, message: ControlMessage) -> None:
        self._heard_at = time.monotonic()
        match message:
            case TelemetryReport():
                self._report = message.report
                self._reported_at = self._heard_at
            case TracesFinished():
                self._owner.on_traces(message)
            case Applied():
                self.manifest = message.manifest
            case Tables():
                self._owner.on_tables_applied(message)
            case LimitsShared():
                self._owner.on_limits_shared(message)
            case Serving():
                self.serving = True
            case ReplicaStates():
                self._pending.resolve(message.question, message.fleets)
            case StickyLearned(from_redis=False):
                self._owner.on_sticky_learned(message.name, message.replica_ref)
            case StickyLearned():
                self._owner.on_sticky_correction(message.name, message.replica_ref)
            case QuerySticky():
                replica_ref = self._owner.find_sticky(message.name)
                self.send(StickyReply(question=message.question, replica_ref=replica_ref))
            case _:
                raise ValueError(f"worker {self.index} sent a {type(message).__name__}")


def _end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process that has closed its channel, for ``EXIT_GRACE_S`` at most, then kill it. Blocks."""
    try:
        return process.wait(EXIT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def exit_words(status: int) -> str:
    """How a process ended, by its exit status, in words."""
    return f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
