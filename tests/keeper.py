"""Sees to it that no process outlives the test run that started it, however that ends.

:func:`start` puts a word into the environment of this process, which everything started from here inherits,
and starts this file as a program of its own. That waits for the end of its standard input, which only a
living test run keeps open, and then kills whatever has the word in its environment: servers, their workers,
browsers. Redis and PostgreSQL overwrite their environment with a title, so those end by
:func:`ends_with_its_parent`.
"""

import ctypes
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NAME = "STARTED_BY_TEST_RUN"
PR_SET_PDEATHSIG = 1
GRACE_S = 1.0
"""For what ends by itself when its parent is gone."""
LIMIT_S = 20.0


def start() -> str:
    """Returns the word. The pipe stays open for as long as this process lives."""
    word = secrets.token_hex(8)
    os.environ[NAME] = word
    watched, _held_open = os.pipe()
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    files = [(os.POSIX_SPAWN_DUP2, watched, 0), null, (os.POSIX_SPAWN_DUP2, 1, 2)]
    command = [sys.executable, "-S", "-E", __file__, word]
    os.posix_spawn(sys.executable, command, {}, file_actions=files, setsid=True)
    os.close(watched)
    return word


def ends_with_its_parent(number: int) -> Callable[[], None]:
    """A ``preexec_fn``: the kernel sends the child this signal when the thread that started it has ended."""
    prctl = ctypes.CDLL(None).prctl  # found before the fork, after which little may be done
    return lambda: prctl(PR_SET_PDEATHSIG, number)


def started_by(word: str) -> list[int]:
    """Processes with that word in their environment, zombies apart."""
    return having_in_environment(NAME, word)


def having_in_environment(name: str, value: str) -> list[int]:
    """Processes that were started with this variable, zombies apart."""
    entry = f"{name}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def main() -> None:
    sys.stdin.buffer.read()
    time.sleep(GRACE_S)
    end = time.monotonic() + LIMIT_S
    # Again and again: a supervisor may start a child between the look and its own end.
    while time.monotonic() < end and (left := started_by(sys.argv[1])):
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
