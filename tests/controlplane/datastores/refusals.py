"""A real Redis that answers, and refuses writes."""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.conftest import RedisServer


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    """Its memory is beyond maxmemory, and nothing is evicted."""
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
        try:
            yield
        finally:
            client.config_set("maxmemory", 0)


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    """It is the replica of a primary that is away."""
    with redis.Redis.from_url(server.url) as client:
        client.replicaof("127.0.0.1", 1)
        try:
            yield
        finally:
            client.replicaof("NO", "ONE")
