"""Listener handover: a worker whose master was killed passes its listener to the next master (SCM_RIGHTS).

Such an orphaned worker opens a control socket: a Unix socket in Linux's abstract namespace, which vanishes
with the worker. Its name holds the address that the proxy listens on. The next master of the same user finds
it in ``/proc/net/unix``, connects, and gets the listener's descriptor. Once its own workers accept from that,
it sends the command :data:`DRAIN_FOLLOWED`.

Source: HAProxy's seamless reload, by ``expose-fd listeners``.
"""

import contextlib
import os
import socket
import struct
import sys
from pathlib import Path

LISTENER_MESSAGE = b"listener"
"""Sent with the descriptor."""
MAX_COMMAND_BYTES = 64
DRAIN = b"drain alone\n"
"""Accept no more and finish; what waits in the listener is accepted first."""
DRAIN_FOLLOWED = b"drain followed\n"
"""The same; what waits in the listener is left to others that accept from it."""
_NAMESPACE = "switchyard-orphan"
_UNIX_SOCKETS = Path("/proc/net/unix")
_CREDENTIALS = struct.Struct("3i")


def is_supported() -> bool:
    """Whether an orphaned worker can be found again: elsewhere it ends with its master."""
    return sys.platform == "linux"


def open_control_socket(address: tuple[str, int]) -> socket.socket:
    """On which this process waits for the next master. Raises OSError."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        control.bind(f"\0{_prefix(address)}{os.getpid()}")
        control.listen(8)
    except OSError:
        control.close()
        raise
    return control


def control_sockets(address: tuple[str, int]) -> list[str]:
    """Names of those of all orphaned workers that listen on this address. Raises OSError."""
    wanted = f"@{_prefix(address)}"
    found = (line.rpartition(" ")[2] for line in _UNIX_SOCKETS.read_text().splitlines())
    # A connection that was accepted bears the same name.
    return sorted({name[1:] for name in found if name.startswith(wanted)})


def connect(name: str, limit_s: float) -> socket.socket:
    """To the control socket of this name. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(limit_s)
        connection.connect(f"\0{name}")
    except OSError:
        connection.close()
        raise
    return connection


def peer_pid(connection: socket.socket) -> int | None:
    """``None``: it belongs to another user. Any process may open a socket with such a name."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return int(pid) if uid == os.getuid() else None


def send_listener(connection: socket.socket, listener: socket.socket) -> None:
    """Raises OSError."""
    socket.send_fds(connection, [LISTENER_MESSAGE], [listener.fileno()])


def receive_listener(connection: socket.socket) -> socket.socket:
    """Raises OSError, TimeoutError among them."""
    message, descriptors, _, _ = socket.recv_fds(connection, len(LISTENER_MESSAGE), 1)
    if message != LISTENER_MESSAGE or len(descriptors) != 1:
        for each in descriptors:
            with contextlib.suppress(OSError):
                os.close(each)
        raise ConnectionError("no listener came")
    os.set_inheritable(descriptors[0], False)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return listener


def _prefix(address: tuple[str, int]) -> str:
    host, port = address
    return f"{_NAMESPACE}/{os.getuid()}/{host}/{port}/"
