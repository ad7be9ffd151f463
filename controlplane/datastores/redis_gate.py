"""Redis gate: a process that watches whose Redis it is uses one of another installation no more than one that
is away: each call fails with a sentence that says whose it is and what to do.

Every new connection is looked at before anything else is asked on it, so that a Redis which comes back as
another one is never written to. :mod:`controlplane.publishing.redis_owner` looks, then and each second.
"""

import logging
from collections.abc import Callable

import redis

logger = logging.getLogger(__name__)


class NotOurs(redis.RedisError):
    """The text says whose it is and names the cure."""


class RedisGate:
    """Of one process. Open until somebody watches it."""

    def __init__(self) -> None:
        self._look: Callable[[], str] | None = None
        self.words = ""
        """Why it is closed; empty: it is open."""

    @property
    def is_watched(self) -> bool:
        return self._look is not None

    def watch(self, look: Callable[[], str]) -> None:
        """``look``: whether Redis is ours, as :attr:`words`. It may raise redis.RedisError."""
        self._look = look

    def set(self, words: str) -> None:
        """The log has it when that changes."""
        before, self.words = self.words, words
        if words and words != before:
            logger.error("Redis is not used: %s", words)
        elif before and not words:
            logger.warning("Redis is this installation's, and is used again")

    def check(self) -> None:
        """Before a call. Raises NotOurs."""
        if self.words:
            raise NotOurs(self.words)

    def admit(self) -> None:
        """A connection was just made. Raises NotOurs, and redis.RedisError if Redis is away again."""
        if self._look is not None:
            self.set(self._look())
            self.check()


gate = RedisGate()
"""Of this process."""
