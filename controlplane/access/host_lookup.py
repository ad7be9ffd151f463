"""Lookups of host names (DNS), as the system does them: many at a time, for a few seconds.

``getaddrinfo`` cannot be ended: a lookup that hangs keeps its thread until the system gives up. So there is a
bound on how many of them a process has, and what is not answered in time is not known.
"""

import socket
from collections.abc import Collection, Mapping
from threading import Condition, Semaphore, Thread
from time import monotonic

from routing.contract.host_addresses import host_addresses

Addresses = Mapping[str, tuple[str, ...] | None]
"""Host name → its addresses; empty: it has none. None: it is not known, DNS does not answer."""

LOOKUP_S = 3.0
"""For all names of one question."""
AT_ONCE = 16
MOST_THREADS = 64
"""Of the process, those that hang included."""

_NO_ADDRESS = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_threads = Semaphore(MOST_THREADS)


def look_up(names: Collection[str]) -> dict[str, tuple[str, ...] | None]:
    """The addresses of all these names. Blocks for LOOKUP_S at most."""
    question = _Question(names)
    for _ in range(min(AT_ONCE, len(question.left))):
        if not _threads.acquire(blocking=False):
            break
        # Not in a pool: its threads are waited for when the process exits.
        Thread(target=question.work, name="lookup", daemon=True).start()
    return question.wait()


class _Question:
    def __init__(self, names: Collection[str]) -> None:
        self.left = sorted(set(names))
        self._found: dict[str, tuple[str, ...] | None] = dict.fromkeys(self.left)
        self._unanswered = len(self.left)
        self._changed = Condition()

    def work(self) -> None:
        """Of one thread: look up one name after the other."""
        try:
            while (name := self._next()) is not None:
                self._answer(name, _addresses_of(name))
        finally:
            _threads.release()

    def wait(self) -> dict[str, tuple[str, ...] | None]:
        until = monotonic() + LOOKUP_S
        with self._changed:
            while self._unanswered and (left_s := until - monotonic()) > 0:
                self._changed.wait(left_s)
            self.left.clear()
            return dict(self._found)

    def _next(self) -> str | None:
        with self._changed:
            return self.left.pop() if self.left else None

    def _answer(self, name: str, addresses: tuple[str, ...] | None) -> None:
        with self._changed:
            self._found[name] = addresses
            self._unanswered -= 1
            self._changed.notify()


def _addresses_of(name: str) -> tuple[str, ...] | None:
    try:
        return host_addresses(name)
    except socket.gaierror as error:
        return () if error.errno in _NO_ADDRESS else None
    except (OSError, UnicodeError):
        return None
