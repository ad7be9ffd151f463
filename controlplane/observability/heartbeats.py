"""Heartbeats in Redis: who gave one, when, and what it said. A sorted set of times beside a hash of bodies.

Proxies, conductors and the other processes each keep such a pair.
"""

from collections.abc import Iterator
from typing import NamedTuple

import redis


class Heartbeat(NamedTuple):
    name: str
    age_s: float
    """Since it was said, by the clock of Redis."""
    body: bytes | None
    """None: only the name is left."""


class Heartbeats:
    """One round trip. Iterates over all that was said, the oldest first."""

    def __init__(self, client: "redis.Redis", names: str, bodies: str) -> None:
        """``names``: sorted set, name → Redis time; ``bodies``: hash, name → body.

        Raises redis.RedisError.
        """
        pipeline = client.pipeline(transaction=False)
        pipeline.time()
        pipeline.zrange(names, 0, -1, withscores=True)
        pipeline.hgetall(bodies)
        (seconds, microseconds), self._names, self._bodies = pipeline.execute()
        self.now = seconds + microseconds / 1_000_000
        """Seconds since 1970, by the clock of Redis."""

    def __iter__(self) -> Iterator[Heartbeat]:
        for name, at in self._names:
            yield Heartbeat(name.decode(), max(self.now - at, 0.0), self._bodies.get(name))
