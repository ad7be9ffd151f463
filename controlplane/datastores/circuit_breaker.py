"""Circuit breaker: after one call that Redis let run into its time limit, further calls fail at once.

A Redis that is gone refuses connections, which costs nothing. One that hangs, or whose network swallows
packets, costs every call its whole time limit, and a request makes several calls. So the first such call
trips the breaker of its process. While it is tripped no call waits; a thread asks Redis, at first at once and
then each second, and resets the breaker with the first answer. A call that was merely unlucky thus costs the
calls of a few milliseconds, not of a second.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

PROBE_EVERY_S = 1.0

logger = logging.getLogger(__name__)


class RedisHangs(redis.TimeoutError):
    """Not asked at all, because Redis did not respond in time a moment ago."""


class CircuitBreaker:
    """Of one Redis server in this process, whatever its logical database. Safe in threads."""

    def __init__(
        self,
        responds: Callable[[], bool],
        *,
        probe_every_s: float = PROBE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``responds``: one question to the server, with a time limit of its own; False: it hangs."""
        self._responds = responds
        self._probe_every_s = probe_every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._tripped_at: float | None = None
        self._prober: threading.Thread | None = None

    @property
    def tripped(self) -> bool:
        """Whether calls fail at once now."""
        return self._tripped_at is not None

    def check(self) -> None:
        """Raises RedisHangs while tripped."""
        at = self._tripped_at
        if at is None:
            return
        with self._lock:
            self._keep_probing()
        raise RedisHangs(f"it has not responded for {self._clock() - at:.0f} s")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around one call: fails at once while tripped, trips when the call runs into its time limit."""
        self.check()
        with self.watch():
            yield

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Around the rest of a call that has begun: trips when it runs into its time limit."""
        try:
            yield
        except RedisHangs:
            raise
        except redis.TimeoutError as error:
            self._trip(error)
            raise

    def _trip(self, error: redis.TimeoutError) -> None:
        with self._lock:
            if self.tripped:
                return
            self._tripped_at = self._clock()
            self._keep_probing()
        logger.warning("Redis does not respond, calls fail at once until it does: %s", error)

    def _keep_probing(self) -> None:
        """Also where a fork has left the thread behind."""
        if self.tripped and (self._prober is None or not self._prober.is_alive()):
            # A daemon: a server that never answers must not keep the process from ending.
            self._prober = threading.Thread(target=self._probe, name="redis-probe", daemon=True)
            self._prober.start()

    def _probe(self) -> None:
        while not self._responds():
            time.sleep(self._probe_every_s)
        with self._lock:
            tripped_at, self._tripped_at, self._prober = self._tripped_at, None, None
        if tripped_at is not None:
            logger.warning("Redis responds again, after %.1f s", self._clock() - tripped_at)
