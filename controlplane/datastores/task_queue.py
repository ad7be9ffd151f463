"""The task queue: Celery's list in Redis, how many tasks wait there, and how many may.

Every task says when it expires, but only a worker throws an expired one away. So whoever adds tasks
periodically looks first whether MOST_WAITING wait: while no worker runs, the list does not grow beyond that.
"""

from typing import Any

from django.conf import settings

from controlplane.datastores import redis
from controlplane.datastores.redis_refusal import RefusedWrite, refused_write

QUEUE = "celery"

MOST_WAITING = 500
"""Tasks; less than half a megabyte in Redis. A worker throws so many expired ones away within a second."""


def queue_length() -> int:
    """Tasks that no worker has taken yet. Raises redis.RedisError."""
    return int(redis.shared_client(settings.BROKER_REDIS_URL).llen(QUEUE))


def write_refusal() -> RefusedWrite | None:
    """Why the queue's Redis, which answers, takes no tasks. Raises redis.RedisError."""
    return refused_write(redis.shared_client(settings.BROKER_REDIS_URL))


def is_full() -> bool:
    """Whether further periodic tasks are to be left out. Raises redis.RedisError."""
    return queue_length() >= MOST_WAITING


def hurried(transport_options: dict[str, Any]) -> dict[str, Any]:
    """Celery's transport options for a process that answers people: it sends a task at once or not at all."""
    limit_s = redis.WEB_TIMEOUT_S
    return {
        **transport_options,
        "socket_timeout": limit_s,
        "socket_connect_timeout": limit_s,
        "max_retries": 0,
    }
