"""Reload cache: what references lead to, loaded once and loaded again when its file was replaced.

A value is used as it is for LOOK_EVERY_S. Then its stamp is taken again, and a stamp that differs loads the
value anew: a file that was replaced holds without a restart. What cannot be loaded is an error until it can
be: the value of before is not used in its place.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from routing.tls.secret_loader import Stamp

LOOK_EVERY_S = 1.0

Value = TypeVar("Value")


class _CachedReference(Generic[Value]):
    """What a reference has led to. No ``repr``: the value may be a secret."""

    __slots__ = ("looked_at", "problem", "stamp", "value")

    def __init__(self, value: Value | None, problem: str, stamp: Stamp) -> None:
        self.value = value
        self.problem = problem
        self.stamp = stamp
        self.looked_at = 0.0


class ReloadCache(Generic[Value]):
    """Reference → value."""

    def __init__(
        self,
        load: Callable[[str], Value],
        stamp: Callable[[str], Stamp],
        error: Callable[[str], Exception],
        most: int,
    ) -> None:
        """``load`` raises ValueError, whose text ``error`` gets.

        ``most``: more references than this at a time are typing errors in trials: all are forgotten.
        """
        self._load = load
        self._stamp = stamp
        self._error = error
        self._most = most
        self._entries: dict[str, _CachedReference[Value]] = {}

    def get(self, reference: str) -> Value:
        """Raises ``error``."""
        now = time.monotonic()
        entry = self._entries.get(reference)
        if entry is None or now - entry.looked_at >= LOOK_EVERY_S:
            entry = self._looked_at(reference, entry, now)
        if entry.value is None:
            raise self._error(entry.problem)
        return entry.value

    def _looked_at(
        self, reference: str, entry: _CachedReference[Value] | None, now: float
    ) -> _CachedReference[Value]:
        stamp = self._stamp(reference)
        # What could not be read may be readable now though nothing was written: rights, descriptors.
        if entry is None or entry.value is None or stamp != entry.stamp:
            try:
                entry = _CachedReference(self._load(reference), "", stamp)
            except ValueError as error:
                entry = _CachedReference(None, str(error), stamp)
        entry.looked_at = now
        if len(self._entries) >= self._most:
            self._entries.clear()
        self._entries[reference] = entry
        return entry
