"""503 for what only Redis has: live numbers, histories, probe results."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError
from rest_framework import exceptions

from controlplane.datastores.redis_gate import gate


class RedisUnavailable(exceptions.APIException):
    status_code = 503
    default_detail = "Redis does not answer: there are no live numbers."


@contextmanager
def redis_needed() -> Iterator[None]:
    """Raises RedisUnavailable where the block raises a RedisError."""
    try:
        yield
    except RedisError as error:
        raise RedisUnavailable(gate.words or None) from error
