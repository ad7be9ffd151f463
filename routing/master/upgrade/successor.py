"""Successor: the new master of a hot restart, as the old one sees it; it has the same command line."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from routing.master.upgrade import inherited_memory, inherited_sockets
from routing.master.upgrade.handover_messages import (
    HandoverChannel,
    HandoverMessage,
    HandoverState,
    StateComplete,
    StickyIdBatch,
    SuccessorReady,
    TakeOver,
)
from routing.master.worker_process import exit_words
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.sticky_ids import ReplicaRef

READY_TIMEOUT_S = 30.0
IDS_PER_MESSAGE = 1000
POLL_EVERY_S = 0.02
POLL_EXIT_EVERY_S = 0.1


class NotReady(Exception):
    """The successor has failed to start; the message says why."""


class Successor:
    """The new master."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel = HandoverChannel(self._on_message, lambda: None)
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    async def start(
        self,
        listeners: list[socket.socket],
        admin: socket.socket | None,
        prefixes: PrefixMemory,
        handover_state: HandoverState,
        sticky_ids: list[tuple[str, ReplicaRef]],
    ) -> None:
        """Start it with these, and wait until it is ready. Raises :class:`NotReady`."""
        ours, theirs = socket.socketpair()
        sockets = [theirs, *listeners, *([] if admin is None else [admin])]
        environment = {
            **os.environ,
            inherited_sockets.VARIABLE: inherited_sockets.environment_value(listeners, admin, theirs),
            inherited_memory.VARIABLE: str(prefixes.fd),
        }
        command = [sys.executable, *sys.orig_argv[1:]]
        try:
            self._process = _spawn(command, environment, [*(each.fileno() for each in sockets), prefixes.fd])
        except OSError as problem:
            ours.close()
            raise NotReady(f"could not be started: {problem.strerror or problem}") from problem
        finally:
            theirs.close()
        ours.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._channel, sock=ours)
        self._channel.send(handover_state)
        for piece in _batches(sticky_ids):
            self._channel.send(StickyIdBatch(places=piece))
            await asyncio.sleep(0)
        self._channel.send(StateComplete())
        await self._becomes_ready()

    async def _becomes_ready(self) -> None:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not self._ready.is_set():
                    status = self.status()
                    if status is not None:
                        raise NotReady(
                            f"{exit_words(status)} before it was ready; its lines in the log say why"
                        )
                    await asyncio.sleep(POLL_EVERY_S)
        except TimeoutError:
            raise NotReady(f"was not ready within {READY_TIMEOUT_S:.0f} s") from None

    def status(self) -> int | None:
        """Its exit status, negative for a signal; ``None`` while it runs."""
        return None if self._process is None else self._process.poll()

    def hand_over(self, handover_state: HandoverState, remains_main_process: bool) -> None:
        """Make the successor responsible for the proxy."""
        self._channel.send(handover_state)
        self._channel.send(TakeOver(stays=remains_main_process))

    def on_sticky_learned(self, name: str, replica_ref: ReplicaRef) -> None:
        """Forward a sticky id that a worker of the old master has learned."""
        self._channel.send(StickyIdBatch(places=[(name, replica_ref)]))

    def disconnect(self) -> None:
        """Close the channel. A successor on whose behalf this process stays then exits at once."""
        self._channel.close()

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    async def end(self, within_s: float) -> None:
        """Wait for its end, and kill it after ``within_s``."""
        if self._process is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self.gone()
        except TimeoutError:
            workers = _children(self._process.pid)
            self._process.kill()
            # They would outlive it.
            for pid in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await self.gone()

    async def gone(self) -> int:
        """Wait for its end. Returns its exit status, as a shell reports it."""
        while (status := self.status()) is None:  # noqa: ASYNC110 (a process)
            await asyncio.sleep(POLL_EXIT_EVERY_S)
        return status if status >= 0 else 128 - status

    def _on_message(self, message: HandoverMessage) -> None:
        if not isinstance(message, SuccessorReady):
            raise ValueError(f"the successor sent a {type(message).__name__}")
        self._ready.set()


def _spawn(command: list[str], environment: dict[str, str], fds: list[int]) -> "subprocess.Popen[bytes]":
    # A process group of its own: Ctrl-C in a terminal is for the first master, which forwards it.
    return subprocess.Popen(command, env=environment, pass_fds=fds, process_group=0)


def _children(pid: int) -> list[int]:
    """Its child processes, where the system tells (Linux)."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _batches(sticky_ids: list[tuple[str, ReplicaRef]]) -> Iterator[list[tuple[str, ReplicaRef]]]:
    for at in range(0, len(sticky_ids), IDS_PER_MESSAGE):
        yield sticky_ids[at : at + IDS_PER_MESSAGE]
