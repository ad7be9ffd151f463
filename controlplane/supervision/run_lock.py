"""Run lock (pid file with flock(2)): one ``up`` at a time on a data folder, and which process that is."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from controlplane.supervision import processes
from controlplane.supervision.errors import UpError
from controlplane.supervision.running_process import Found

RUNNING_LOCK = "up.lock"


@contextmanager
def only_one_on(data: Path, *, is_up: bool = False) -> Iterator[None]:
    """Hold the data folder for this run; raises :class:`UpError` while another run holds it, and where it
    cannot be written. ``is_up``: write down that this process is the one to be stopped."""
    try:
        held = (data / RUNNING_LOCK).open("a+")
    except OSError as error:
        raise UpError(
            f"The data folder {data} cannot be written ({error.strerror or error}): make it writable for "
            "this user, or use another one with --data-dir."
        ) from None
    with held as lock:
        if not _take(lock):
            raise UpError(
                f"Switchyard is already running on {data}: "
                "stop it first, or use another folder with --data-dir."
            )
        with suppress(OSError):  # a full disk: the state file may say it
            lock.truncate(0)
            lock.write(str(os.getpid()) if is_up else "")
            lock.flush()
        yield


def holder(data: Path) -> Found | None:
    """The ``up`` that holds the data folder, also where its state file cannot be read."""
    try:
        with (data / RUNNING_LOCK).open("r+") as lock:
            if _take(lock):
                return None
            pid = int(lock.read(20) or 0)
    except (OSError, ValueError):
        return None
    started = processes.started_at(pid) if pid else None
    return None if started is None else Found(pid, started)


def _take(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
