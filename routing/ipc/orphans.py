"""Orphans: workers whose master was killed. They serve on, and hand their listeners to the next (SCM_RIGHTS).

An orphan listens on a Unix socket in Linux's abstract namespace, which vanishes with it. The name holds the
address that the proxy listens on. The next master of the same user finds it in ``/proc/net/unix``, connects,
and gets the listener's descriptor. Once its own workers accept from it, it sends :data:`DRAIN_FOLLOWED`.
"""

import contextlib
import os
import socket
import struct
import sys
from pathlib import Path

HELLO = b"listener"
"""Sent with the descriptor."""
DRAIN = b"drain alone\n"
"""Accept no more and finish; what waits in the listener is accepted first."""
DRAIN_FOLLOWED = b"drain followed\n"
"""The same; what waits in the listener is left to others that accept from it."""
_PREFIX = "switchyard-orphan"
_UNIX_SOCKETS = Path("/proc/net/unix")
_CREDENTIALS = struct.Struct("3i")


def are_possible() -> bool:
    """Whether a worker can be found again: elsewhere it ends with its master."""
    return sys.platform == "linux"


def open_door(address: tuple[str, int]) -> socket.socket:
    """The socket on which this process waits for the next master. Raises OSError."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        door.bind(f"\0{_folder(address)}{os.getpid()}")
        door.listen(8)
    except OSError:
        door.close()
        raise
    return door


def names(address: tuple[str, int]) -> list[str]:
    """The doors of all orphans that listen on this address. Raises OSError."""
    wanted = f"@{_folder(address)}"
    words = (line.rpartition(" ")[2] for line in _UNIX_SOCKETS.read_text().splitlines())
    # A connection that was accepted bears the same name.
    return sorted({word[1:] for word in words if word.startswith(wanted)})


def connect(name: str, limit_s: float) -> socket.socket:
    """To the orphan with this door. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(limit_s)
        connection.connect(f"\0{name}")
    except OSError:
        connection.close()
        raise
    return connection


def pid_of_peer(connection: socket.socket) -> int | None:
    """``None``: it belongs to another user. Any process may open a socket with such a name."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return int(pid) if uid == os.getuid() else None


def send_listener(connection: socket.socket, listener: socket.socket) -> None:
    """Raises OSError."""
    socket.send_fds(connection, [HELLO], [listener.fileno()])


def receive_listener(connection: socket.socket) -> socket.socket:
    """Raises OSError, TimeoutError among them."""
    said, descriptors, _, _ = socket.recv_fds(connection, len(HELLO), 1)
    if said != HELLO or len(descriptors) != 1:
        for each in descriptors:
            with contextlib.suppress(OSError):
                os.close(each)
        raise ConnectionError("no listener came")
    os.set_inheritable(descriptors[0], False)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return listener


def _folder(address: tuple[str, int]) -> str:
    host, port = address
    return f"{_PREFIX}/{os.getuid()}/{host}/{port}/"
