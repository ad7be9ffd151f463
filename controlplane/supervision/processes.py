"""Child processes: finds and ends all below this one (Linux; elsewhere supervisord alone does it)."""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become subreaper: orphaned processes become our children instead of init's, so that we can end them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int) -> list[int]:
    """Process ids below ``root``, zombies left out."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(folder.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def end_descendants(grace_s: float) -> list[int]:
    """SIGTERM, then SIGKILL after ``grace_s``, until no child is left. Returns those still left."""
    until = time.monotonic() + grace_s
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while left := descendants(os.getpid()):
        if time.monotonic() > until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until + 2:
            return left
        reap()
        time.sleep(0.02)
    reap()
    return []


def reap(keep: int | None = None) -> None:
    """Take the exit status of ended children, adopted ones too, so that none stays a zombie.

    The status of ``keep`` is left to whoever started it.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in (0, keep):
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
