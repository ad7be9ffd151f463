"""Processes of this machine: which are below this one, since when one runs, and how they end (by /proc)."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
STARTED_ON = "SWITCHYARD_STARTED_ON"
"""In the environment of everything that ``up`` starts: its data folder."""


def adopt_orphans() -> None:
    """Become subreaper: orphaned processes become our children instead of init's, so that we can end them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int) -> list[int]:
    """Process ids below ``root``, zombies left out."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = _stat(folder)
            if not _has_ended(fields):
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def started_at(pid: int) -> str | None:
    """When it was started, as a text that no other process with this id has; ``None``: it does not run, or
    this system does not tell."""
    with suppress(OSError, IndexError):
        fields = _stat(Path(f"/proc/{pid}"))
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if _has_ended(fields) else f"{boot}/{fields[19]}"
    return None


def _stat(folder: Path) -> list[str]:
    """Of ``/proc/…/stat`` what follows the name, ``proc_pid_stat(5)``'s field 3 first. Raises OSError."""
    return (folder / "stat").read_text().rpartition(") ")[2].split()


def _has_ended(fields: list[str]) -> bool:
    """Whether all of it is over. A process whose first thread is a zombie has its ports, sockets and files
    until the last of its other threads has ended too."""
    return fields[0] in "ZX" and int(fields[17]) <= 1


def started_on(data: Path) -> list[int]:
    """Process ids of what any ``up`` has started on this data folder, whoever is its parent by now. Without
    Redis, which overwrites its environment."""
    entry = f"{STARTED_ON}={data}".encode()
    found = _where(lambda folder: entry in (folder / "environ").read_bytes().split(b"\0"))
    return [pid for pid in found if pid != os.getpid()]


def redis_in(working: Path) -> list[int]:
    """Process ids of Redis servers that work in this folder, whoever is their parent by now."""

    def works_there(folder: Path) -> bool:
        name = (folder / "comm").read_text()
        return ("redis" in name or "valkey" in name) and (folder / "cwd").readlink() == working

    return _where(works_there)


def _where(is_meant: Callable[[Path], bool]) -> list[int]:
    """Running processes whose folder in ``/proc`` is meant. Those that may not be looked into are not."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if is_meant(folder):
                found.append(int(folder.name))
    return [pid for pid in found if started_at(pid) is not None]


def kill_tree(root: int) -> None:
    """SIGKILL for it and all below it."""
    for pid in [root, *descendants(root)]:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_left(data: Path, grace_s: float) -> list[int]:
    """End what is left below this process or was started on this data folder: SIGTERM, then SIGKILL after
    ``grace_s``, until nothing is. Returns what is still left."""
    until = time.monotonic() + grace_s
    number = signal.SIGTERM
    while left := {*descendants(os.getpid()), *started_on(data)}:
        if number == signal.SIGTERM or time.monotonic() > until:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            number = signal.SIGKILL
        if time.monotonic() > until + 2:
            return sorted(left)
        reap()
        time.sleep(0.02)
    reap()
    return []


def reap(own: Container[int] = ()) -> None:
    """Take the exit status of ended children, adopted ones too, so that none stays a zombie.

    The status of ``own`` is left to whoever started them.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == 0 or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
