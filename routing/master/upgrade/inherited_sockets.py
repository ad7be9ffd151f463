"""Inherited sockets: from the master that is replaced, or from a service manager (socket activation).

A master lists them in ``SWITCHYARD_INHERITED``, as ``channel=5 admin=6 listener=7 listener=8``. A service
manager gives their number, from descriptor 3 on, as in sd_listen_fds(3); a socket named ``admin`` is the
admin listener. These variables are only for this process, and are removed from the environment.
"""

import os
import socket
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from msgspec.structs import replace

from routing.master.listeners import BindAddress, ListenFailed
from routing.master.options import Options

VARIABLE = "SWITCHYARD_INHERITED"
FIRST_FD = 3


class InheritedSockets(NamedTuple):
    """The inherited sockets; empty for a proxy that opens its own."""

    listeners: list[socket.socket] = []
    admin: socket.socket | None = None
    channel: socket.socket | None = None
    """To the predecessor, which started this master."""

    @property
    def address(self) -> BindAddress | None:
        """The address of the listeners; ``None``: no listener is inherited."""
        return BindAddress(*self.listeners[0].getsockname()[:2]) if self.listeners else None


NO_SOCKETS = InheritedSockets()


def options_with(options: Options, found: InheritedSockets) -> Options:
    """The options, changed to fit inherited listeners: their address, and so whether clients need a key, and
    at least as many workers as listeners, because each listener needs one."""
    if found.address is None:
        return options
    return replace(options, listen=found.address, workers=max(options.workers, len(found.listeners)))


def environment_value(
    listeners: list[socket.socket], admin: socket.socket | None, channel: socket.socket
) -> str:
    """The value of ``SWITCHYARD_INHERITED`` for a successor that inherits these descriptors."""
    named = [("channel", channel), *(("listener", listener) for listener in listeners)]
    if admin is not None:
        named.append(("admin", admin))
    return " ".join(f"{name}={each.fileno()}" for name, each in named)


def from_environment(environment: MutableMapping[str, str]) -> InheritedSockets:
    """The sockets that the environment names. Raises ListenFailed if they cannot be used."""
    named = _named(environment)
    for name in (VARIABLE, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        environment.pop(name, None)
    found: dict[str, list[socket.socket]] = {"listener": [], "admin": [], "channel": []}
    for name, fd in named:
        found[name].append(_socket(name, fd))
    if named and not found["listener"]:
        raise ListenFailed("of the sockets that the proxy was started with none is for clients")
    return InheritedSockets(
        found["listener"], *(found[name][0] if found[name] else None for name in ("admin", "channel"))
    )


def _named(environment: Mapping[str, str]) -> list[tuple[str, int]]:
    if text := environment.get(VARIABLE):
        return [(name, int(fd)) for name, _, fd in (word.partition("=") for word in text.split())]
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environment.get("LISTEN_FDS", "0"))
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    roles = ["admin" if names[at : at + 1] == ["admin"] else "listener" for at in range(count)]
    return [(role, FIRST_FD + at) for at, role in enumerate(roles)]


def _socket(name: str, fd: int) -> socket.socket:
    try:
        os.set_inheritable(fd, False)
        found = socket.socket(fileno=fd)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as problem:
        raise ListenFailed(
            f"descriptor {fd}, inherited as {name}, is no socket: {problem.strerror}"
        ) from problem
    if name != "channel" and (not listens or found.family not in (socket.AF_INET, socket.AF_INET6)):
        raise ListenFailed(f"descriptor {fd}, inherited as {name}, is no socket that listens for TCP")
    found.setblocking(False)
    return found
