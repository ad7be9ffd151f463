"""Ports of 127.0.0.1 for tests: free ones that stay so, and one that never answers.

A port that the kernel chooses is anybody's again as soon as its listener is closed: another test process
may get it, or an outgoing connection. A test that stops a server, or wants a port where nobody listens,
would then meet a stranger. So each test process has a block of ports of its own, below those that the kernel
gives away (``net.ipv4.ip_local_port_range``), for as long as it holds a lock on the block's file.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FIRST, SIZE, BLOCKS = 12_000, 500, 40


class Block:
    """The ports of one test process, handed out in turn."""

    def __init__(self, first: int, lock: IO[str]) -> None:
        self._lock = lock  # closed, and so released, when the process ends
        self._ports = itertools.cycle(range(first, first + SIZE))

    def next(self) -> int:
        return next(port for port in self._ports if is_free(port))

    def next_run(self, count: int) -> int:
        """The first of so many successive ones."""
        run: list[int] = []
        while len(run) < count:
            port = self.next()
            run = [*run, port] if run and port == run[-1] + 1 else [port]
        return run[0]


@functools.cache
def own_block(pid: int) -> Block:
    """``pid``: of this process, because a forked one may not share its parent's."""
    folder = Path(tempfile.gettempdir()) / f"switchyard-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(BLOCKS):
        lock = (folder / str(number)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return Block(FIRST + number * SIZE, lock)
    raise RuntimeError(f"{BLOCKS} test processes run already: stop some, or have fewer (pytest -n)")


def is_free(port: int) -> bool:
    """Whether a server could listen there, at any address of this host."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
            listener.listen(1)
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port where nobody listens, and nobody will but who asked for it."""
    return own_block(os.getpid()).next()


def free_ports(count: int) -> list[int]:
    """Different ones."""
    return [free_port() for _ in range(count)]


def free_run(count: int) -> int:
    """The first of so many successive ones."""
    return own_block(os.getpid()).next_run(count)


@contextlib.contextmanager
def unaccepting_port() -> Iterator[int]:
    """A port whose connections are never established: its accept queue is full."""
    with full_listener() as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def full_listener() -> Iterator[socket.socket]:
    """A listening socket whose accept queue is full, until somebody accepts."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            filler = sockets.enter_context(socket.socket())
            filler.settimeout(0.05)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                break
        yield listener
