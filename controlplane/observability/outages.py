"""Outages of dependencies, logged once: that something is away, and that it is back."""

import logging
import threading

from controlplane.datastores.redis_refusal import refusal


class Outages:
    """What is away just now. Safe in threads."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._away: set[str] = set()
        self._lock = threading.Lock()

    def away(self, what: str, error: BaseException) -> None:
        """``what`` ("Redis", "the database") failed just now."""
        with self._lock:
            if what in self._away:
                return
            self._away.add(what)
        how = "answers with an error" if refusal(error) else "does not answer"
        self._logger.warning("%s %s, still trying: %s", what, how, str(error) or type(error).__name__)

    def back(self, what: str) -> None:
        """``what`` worked just now."""
        if what not in self._away:  # the common case needs no lock
            return
        with self._lock:
            if what not in self._away:
                return
            self._away.remove(what)
        self._logger.warning("%s answers again", what)

    @property
    def current(self) -> list[str]:
        """What is away, for the system page."""
        return sorted(self._away)
