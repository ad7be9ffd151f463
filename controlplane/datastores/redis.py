"""Connections to the Redis that carries table, telemetry and probes (logical database 0)."""

from functools import lru_cache

import redis
import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

LOST = (redis.RedisError, OSError, RuntimeError)
"""What an asyncio client raises when Redis is away: uvloop's transports answer a write after their end
with a RuntimeError, which the client passes on as it is."""

TIMEOUT_S = 1.0
"""An absent Redis must not hold up a page or a write for longer than this."""

SHORT_TIMEOUT_S = 0.3


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 1),
        health_check_interval=30,
    )


def client() -> redis.Redis:
    """The process's shared client, safe in threads. Answers bytes. Raises redis.RedisError when away."""
    return _client(settings.REDIS_URL)


def short_timeout_client() -> redis.Redis:
    """For a process that is ending: it has no time for a Redis that hangs. Whoever asks for it closes it."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=SHORT_TIMEOUT_S,
        socket_connect_timeout=SHORT_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def async_client() -> redis.asyncio.Redis:
    """A new client of the running event loop; whoever asks for it closes it."""
    return redis.asyncio.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )
