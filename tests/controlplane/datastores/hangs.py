"""A Redis that hangs: a stopped process, for which the kernel still accepts connections and bytes."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.datastores import redis
from controlplane.datastores.circuit_breaker import CircuitBreaker
from tests.conftest import RedisServer
from tests.proxy_process import until

HEALED_S = 60.0


def until_reset(breaker: CircuitBreaker) -> None:
    until(lambda: not breaker.tripped, "the circuit breaker is reset", HEALED_S)


@contextmanager
def hanging(server: RedisServer) -> Iterator[None]:
    """Afterwards it responds again, and this process has noticed."""
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        until_reset(redis.circuit_breaker(server.url))
