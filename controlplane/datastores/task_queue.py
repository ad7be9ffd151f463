"""The task queue: Celery's list in Redis, and how many tasks wait there."""

from functools import lru_cache

import redis
from django.conf import settings

from controlplane.datastores.redis import TIMEOUT_S

QUEUE = "celery"


def queue_length() -> int:
    """Tasks that no worker has taken yet. Raises redis.RedisError."""
    return int(_broker(settings.BROKER_REDIS_URL).llen(QUEUE))


@lru_cache(maxsize=4)
def _broker(url: str) -> "redis.Redis":
    return redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
