"""Connections to the Redis that carries table, telemetry and probes (logical database 0).

Every client of a process shares one circuit breaker for its server (:mod:`.circuit_breaker`), also those of
the channel layer and of the task queue: a Redis that hangs costs a request one time limit, not one a call.
"""

import asyncio
import socket
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
import redis.asyncio.connection
import redis.asyncio.retry
import redis.connection
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from controlplane.datastores.circuit_breaker import CircuitBreaker
from controlplane.datastores.redis_gate import RedisGate, gate

LOST = (redis.RedisError, OSError, RuntimeError)
"""What an asyncio client raises when Redis is away: uvloop's transports answer a write after their end
with a RuntimeError, which the client passes on as it is."""

TIMEOUT_S = 1.0
"""Of one call, in processes in whose answer nobody waits."""

WEB_TIMEOUT_S = 0.5
"""The same where somebody does: pages and the API answer within a second while Redis hangs."""

SHORT_TIMEOUT_S = 0.3

KEEPALIVE_S = 5
"""A connection on which nothing is sent, as a subscriber's, is found dead after four times this."""

_timeout_s = TIMEOUT_S
_NO_GATE = RedisGate()


def hurry() -> None:
    """This process answers people: its calls wait for WEB_TIMEOUT_S at most."""
    global _timeout_s
    _timeout_s = WEB_TIMEOUT_S


def timeout_s() -> float:
    """How long connecting, and then each call, may take in this process."""
    return _timeout_s


def client() -> redis.Redis:
    """The process's shared client, safe in threads. Answers bytes. Raises redis.RedisError when away."""
    return shared_client(settings.REDIS_URL)


def unchecked_client() -> redis.Redis:
    """As :func:`client`, also of another installation's Redis: for whoever looks whose it is, or takes it."""
    return _client(settings.REDIS_URL, _timeout_s, _NO_GATE)


def shared_client(url: str) -> redis.Redis:
    """As :func:`client`, of any of the server's logical databases."""
    return _client(url, _timeout_s, gate)


@lru_cache(maxsize=8)
def _client(url: str, timeout_s: float, gate: RedisGate) -> redis.Redis:
    # A connection that was lost is made anew once. A time limit is never waited for twice.
    retry = Retry(NoBackoff(), 1, (redis.ConnectionError,))
    return _new_client(url, timeout_s, gate, retry=retry, health_check_interval=30)


def short_timeout_client() -> redis.Redis:
    """For a process that is ending: it has no time for a Redis that hangs. Whoever asks for it closes it."""
    return _new_client(settings.REDIS_URL, SHORT_TIMEOUT_S, gate, retry=Retry(NoBackoff(), 0))


def async_client() -> redis.asyncio.Redis:
    """A new client of the running event loop; whoever asks for it closes it."""
    pool: Any = redis.asyncio.ConnectionPool(**async_pool_arguments(settings.REDIS_URL))
    return redis.asyncio.Redis.from_pool(pool)


def _new_client(url: str, timeout_s: float, gate: RedisGate, **more: Any) -> redis.Redis:
    parse: Any = redis.connection.parse_url
    given = parse(url)
    kind = given.pop("connection_class", redis.connection.Connection)
    arguments = {**_limits(url, timeout_s), **more, **given}
    pool = redis.ConnectionPool(_guarded(kind, circuit_breaker(url), gate), **arguments)
    return redis.Redis.from_pool(pool)


def async_pool_arguments(url: str) -> dict[str, Any]:
    """What ``redis.asyncio.ConnectionPool`` is made with."""
    given: dict[str, Any] = {**redis.asyncio.connection.parse_url(url)}
    kind = given.pop("connection_class", redis.asyncio.connection.Connection)
    retry = redis.asyncio.retry.Retry(NoBackoff(), 1, (redis.ConnectionError,))
    return {
        "connection_class": _guarded_async(kind, circuit_breaker(url), gate),
        **_limits(url, _timeout_s),
        "retry": retry,
        **given,
    }


def _limits(url: str, timeout_s: float) -> dict[str, Any]:
    limits: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    if urlsplit(url).scheme != "unix":
        limits |= {"socket_keepalive": True, "socket_keepalive_options": _keepalive()}
    return limits


def _keepalive() -> dict[int, int]:
    """Socket option → value, of those that this system has."""
    wanted = {"TCP_KEEPIDLE": KEEPALIVE_S, "TCP_KEEPINTVL": KEEPALIVE_S, "TCP_KEEPCNT": 3}
    return {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}


# --- The circuit breaker of each server ---

_breakers: dict[str, CircuitBreaker] = {}
"""Server → its breaker."""


def circuit_breaker(url: str | None = None) -> CircuitBreaker:
    """Of the server of this URL, whichever of its databases it names; None: of the settings'."""
    url = url or settings.REDIS_URL
    parts = urlsplit(url)
    server = parts.path if parts.scheme == "unix" else parts.netloc
    return _breakers.setdefault(server, CircuitBreaker(lambda: _responds(url)))


def _responds(url: str) -> bool:
    """Whether the server does, on a connection of its own. One that refuses does: calls see it at once."""
    probe = redis.Redis.from_url(
        url,
        socket_timeout=_timeout_s,
        socket_connect_timeout=_timeout_s,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        probe.ping()
    except redis.TimeoutError:
        return False
    except (redis.RedisError, OSError):
        return True
    finally:
        probe.close()
    return True


def _guarded(kind: Any, breaker: CircuitBreaker, gate: RedisGate) -> Any:
    """A class of connections as ``kind``, whose calls breaker and gate guard."""

    class GuardedConnection(kind):  # type: ignore[misc]  # one of three classes
        def connect(self) -> None:
            with breaker.guard():
                super().connect()

        def on_connect_check_health(self, *args: Any, **kwargs: Any) -> None:
            super().on_connect_check_health(*args, **kwargs)
            gate.admit()

        def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            gate.check()
            with breaker.guard():
                super().send_packed_command(*args, **kwargs)

        def read_response(self, *args: Any, **kwargs: Any) -> Any:
            with breaker.watch():
                return super().read_response(*args, **kwargs)

    return GuardedConnection


def _guarded_async(kind: Any, breaker: CircuitBreaker, gate: RedisGate) -> Any:
    """As :func:`_guarded`, of an event loop's connections."""

    class GuardedAsyncConnection(kind):  # type: ignore[misc]  # one of three classes
        async def connect(self) -> None:
            with breaker.guard():
                await super().connect()

        async def on_connect_check_health(self, *args: Any, **kwargs: Any) -> None:
            await super().on_connect_check_health(*args, **kwargs)
            if gate.is_watched:
                await asyncio.to_thread(gate.admit)

        async def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
            gate.check()
            with breaker.guard():
                await super().send_packed_command(*args, **kwargs)

        async def read_response(self, *args: Any, **kwargs: Any) -> Any:
            with breaker.watch():
                return await super().read_response(*args, **kwargs)

    return GuardedAsyncConnection
