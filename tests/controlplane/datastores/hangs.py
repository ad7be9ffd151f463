"""A Redis that hangs: a stopped process, for which the kernel still accepts connections and bytes."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.datastores import redis
from tests.conftest import RedisServer

HEALED_S = 60.0


@contextmanager
def hanging(server: RedisServer) -> Iterator[None]:
    """Afterwards it responds again, and this process has noticed."""
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        assert redis.circuit_breaker(server.url).wait_reset(HEALED_S)
