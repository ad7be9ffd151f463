"""Ports that must be free before anything starts."""

import errno
import socket
from collections.abc import Container
from typing import NamedTuple

from controlplane.supervision.errors import UpError


class PortUse(NamedTuple):
    port: int
    host: str
    purpose: str
    flag: str
    """The flag of ``up`` that changes it."""
    program: str = ""
    """The program that listens there."""


def refuse_taken(uses: list[PortUse], running: Container[str] = ()) -> None:
    """Raise :class:`UpError` for the first port that two uses share or that cannot be bound. Programs that
    are ``running`` already have theirs."""
    seen: dict[int, PortUse] = {}
    for use in uses:
        if use.port > 65535:
            raise UpError(f"{use.purpose} would need port {use.port}: choose a lower {use.flag}.")
        if other := seen.get(use.port):
            both = f"{other.purpose} and {use.purpose}"
            raise UpError(f"Port {use.port} is used twice, by {both}: change {use.flag}.")
        seen[use.port] = use
        if use.program not in running and (problem := obstacle(use)):
            raise UpError(problem)


def obstacle(use: PortUse) -> str | None:
    """Why the port cannot be used, as a sentence; ``None`` when it can."""
    family = socket.AF_INET6 if ":" in use.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((use.host, use.port))
            return None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return (
                    f"Port {use.port} is in use by another program, and {use.purpose} needs it: "
                    f"stop that program or choose another port with {use.flag} N."
                )
            if error.errno == errno.EACCES:
                return (
                    f"Port {use.port} for {use.purpose} needs root: choose one above 1023 with {use.flag} N."
                )
            return (
                f"{use.purpose} cannot listen on {use.host}:{use.port}: {error.strerror}; change {use.flag}."
            )
        except UnicodeError:
            return f"{use.host!r} is not an address: change --host."
