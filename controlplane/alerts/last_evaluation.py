"""Last evaluation: how long ago alerts were evaluated. Where nobody does, "nothing fires" would be a lie."""

import logging

import redis

from controlplane.datastores.redis import client as redis_client

KEY = "sy:alerts:evaluated"
"""Redis string. Its age is what has gone of LASTS_MS."""
LASTS_MS = 3_600_000
OVERDUE_S = 20.0
"""Evaluations are 5 s apart."""

logger = logging.getLogger(__name__)


def note() -> None:
    """Now."""
    try:
        redis_client().set(KEY, b"1", px=LASTS_MS)
    except redis.RedisError:
        logger.debug("Redis is away: it is not noted that alerts were evaluated")


def age_s() -> float | None:
    """``None``: nobody has for an hour. Raises redis.RedisError."""
    left_ms = int(redis_client().pttl(KEY))
    return (LASTS_MS - left_ms) / 1000 if left_ms >= 0 else None


def is_overdue(age: float | None) -> bool:
    return age is None or age > OVERDUE_S
