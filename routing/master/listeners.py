"""Listeners (listening sockets): one per worker on the same address (SO_REUSEPORT), all held by the master.

``SO_REUSEPORT`` makes the kernel spread new connections over them. The master keeps each one open for its
whole life. So the successor of a dead worker finds the connections that came meanwhile in the accept queue.
When the master is killed, each worker still holds its own (:mod:`routing.master.orphaned_workers`).
"""

import errno
import socket
from typing import Any, NamedTuple

from routing.worker.acceptor import BACKLOG


class BindAddress(NamedTuple):
    """Host and port to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "BindAddress":
        """Parse ``HOST:PORT``; an IPv6 host is in brackets. Raises ValueError, in words."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8080")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"{text!r}: write an IPv6 address in brackets, for example [::1]:8080")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")


class ListenFailed(Exception):
    """A listener cannot be opened; the message says which and why."""


def open_listeners(address: BindAddress, count: int) -> list[socket.socket]:
    """``count`` listening sockets on one address. Port 0: the kernel chooses one port for all.

    Raises :class:`ListenFailed`, also if another proxy of the same user listens there already: with
    ``SO_REUSEPORT`` alone the two would silently share the traffic.
    """
    if address.port:
        open_listener(address).close()
    listeners: list[socket.socket] = []
    try:
        for _ in range(count):
            listener = _bind(address, share=True)
            listeners.append(listener)
            address = BindAddress(address.host, listener.getsockname()[1])
    except ListenFailed:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def open_listener(address: BindAddress) -> socket.socket:
    """One listening socket that does not share its port. Raises :class:`ListenFailed`."""
    return _bind(address, share=False)


def is_taken(address: BindAddress) -> bool:
    """Whether somebody listens there already."""
    try:
        open_listener(address).close()
    except ListenFailed as problem:
        return isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE
    return False


def resolved(address: BindAddress) -> tuple[str, int]:
    """Host and port as a listener there names them. Raises OSError."""
    host, port = _find(address)[4][:2]
    return str(host), int(port)


def _find(address: BindAddress) -> tuple[Any, ...]:
    return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]


def _bind(address: BindAddress, *, share: bool) -> socket.socket:
    try:
        family, kind, protocol, _, target = _find(address)
    except OSError as problem:
        raise ListenFailed(f"cannot listen on {address}: {problem.strerror or problem}") from problem
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(target)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        raise ListenFailed(_words(address, problem)) from problem
    return listener


def _words(address: BindAddress, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"port {address.port} on {address.host} is in use by another process"
    if problem.errno == errno.EACCES:
        return f"not allowed to listen on {address}: ports below 1024 need a privilege"
    if problem.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {address}: no interface of this machine has that address"
    return f"cannot listen on {address}: {problem.strerror}"
