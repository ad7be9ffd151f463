"""The parent that is to take this one's place: a process of its own, with the same command line."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

from routing.parent.worker_process import exit_words
from routing.replica_state.kept_ids import Place
from routing.upgrade import inherited
from routing.upgrade.letters import Complete, Estate, HandoverChannel, Ids, Letter, Ready, TakeOver

READY_WITHIN_S = 30.0
IDS_AT_ONCE = 1000
LOOK_EVERY_S = 0.02
LOOK_AT_END_EVERY_S = 0.1


class NotReady(Exception):
    """It does not come; the message says why."""


class Successor:
    """As seen by the parent that it follows."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel = HandoverChannel(self._received, lambda: None)
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    async def start(
        self,
        listeners: list[socket.socket],
        admin: socket.socket | None,
        estate: Estate,
        places: list[tuple[str, Place]],
    ) -> None:
        """Start it with these sockets, and wait until it is ready. Raises :class:`NotReady`."""
        ours, theirs = socket.socketpair()
        sockets = [theirs, *listeners, *([] if admin is None else [admin])]
        environment = {**os.environ, inherited.VARIABLE: inherited.passed_on(listeners, admin, theirs)}
        command = [sys.executable, *sys.orig_argv[1:]]
        try:
            self._process = _spawn(command, environment, [each.fileno() for each in sockets])
        except OSError as problem:
            ours.close()
            raise NotReady(f"could not be started: {problem.strerror or problem}") from problem
        finally:
            theirs.close()
        ours.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._channel, sock=ours)
        self._channel.send(estate)
        for piece in _pieces(places):
            self._channel.send(Ids(places=piece))
            await asyncio.sleep(0)
        self._channel.send(Complete())
        await self._becomes_ready()

    async def _becomes_ready(self) -> None:
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                while not self._ready.is_set():
                    status = self.status()
                    if status is not None:
                        raise NotReady(
                            f"{exit_words(status)} before it was ready; its lines in the log say why"
                        )
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise NotReady(f"was not ready within {READY_WITHIN_S:.0f} s") from None

    def status(self) -> int | None:
        """Its exit status, negative for a signal; ``None`` while it runs."""
        return None if self._process is None else self._process.poll()

    def hand_over(self, estate: Estate, stays: bool) -> None:
        """The proxy is its from now on."""
        self._channel.send(estate)
        self._channel.send(TakeOver(stays=stays))

    def learned(self, name: str, place: Place) -> None:
        """Here it is learned still which replica keeps what."""
        self._channel.send(Ids(places=[(name, place)]))

    def leave_it(self) -> None:
        """Be gone for it: where this process stands for it, it leaves at once."""
        self._channel.close()

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    async def end(self, within_s: float) -> None:
        """It is not wanted: wait for its end, and kill it after that time."""
        if self._process is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self.gone()
        except TimeoutError:
            self._process.kill()
            await self.gone()

    async def gone(self) -> int:
        """Wait for its end; its exit status, as a shell tells it."""
        while (status := self.status()) is None:  # noqa: ASYNC110 (a process)
            await asyncio.sleep(LOOK_AT_END_EVERY_S)
        return status if status >= 0 else 128 - status

    def _received(self, letter: Letter) -> None:
        if not isinstance(letter, Ready):
            raise ValueError(f"the successor sent a {type(letter).__name__}")
        self._ready.set()


def _spawn(command: list[str], environment: dict[str, str], fds: list[int]) -> "subprocess.Popen[bytes]":
    # A process group of its own: Ctrl-C in a terminal is for the first parent, which passes it on.
    return subprocess.Popen(command, env=environment, pass_fds=fds, process_group=0)


def _pieces(places: list[tuple[str, Place]]) -> Iterator[list[tuple[str, Place]]]:
    for at in range(0, len(places), IDS_AT_ONCE):
        yield places[at : at + IDS_AT_ONCE]
