"""Write turns (fair lock): writers of one process take their turns at SQLite in the order in which they came.

SQLite has one writer at a time and no queue: whoever finds it busy sleeps, and tries again after up to a
tenth of a second. Of many that write at once some would starve, and nobody would write while all sleep.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection

from controlplane.config.environment import SQLITE_TIMEOUT_S


class FairLock:
    """First come, first served."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout_s: float) -> bool:
        """Whether it is ours; else it was not within that time."""
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout_s):
            return True
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True  # it was handed over in this very moment

    def release(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False


_turns = FairLock()


class WriteTurn:
    """Ours, until it is ended: with the transaction, not with what follows its commit."""

    def __init__(self, turns: FairLock | None) -> None:
        self._turns = turns

    def end(self) -> None:
        """A second time it does nothing."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()


@contextmanager
def write_turn() -> Iterator[WriteTurn]:
    """Around a transaction that writes. PostgreSQL has a queue of its own. Raises django.db.OperationalError,
    as SQLite's own wait does, when the turn has not come in time."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield WriteTurn(None)
        return
    if not _turns.acquire(SQLITE_TIMEOUT_S):
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise OperationalError(str(busy)) from busy
    turn = WriteTurn(_turns)
    try:
        yield turn
    finally:
        turn.end()
