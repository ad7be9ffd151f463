"""Ports of 127.0.0.1 for tests: free ones, and one that never answers."""

import contextlib
import socket
from collections.abc import Iterator


def free_port() -> int:
    """A port where nobody listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones."""
    with contextlib.ExitStack() as sockets:
        held = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]


def free_run(count: int) -> int:
    """The first of so many successive ones."""
    while True:
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError, OverflowError):
            first: int = sockets.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for port in range(first + 1, first + count):
                sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


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
