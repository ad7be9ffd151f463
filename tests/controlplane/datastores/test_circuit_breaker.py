"""A Redis that hangs costs one time limit, not one a call; what is healed is noticed."""

import threading
import time
from typing import Any

import pytest
import redis as redis_py
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from controlplane.datastores import redis, task_queue
from controlplane.datastores.circuit_breaker import CircuitBreaker, RedisHangs
from tests.conftest import RedisServer
from tests.controlplane.datastores.hangs import hanging, until_reset
from tests.ports import unaccepting_port

pytestmark = pytest.mark.any_database

CALLS = 50


class Server:
    """Responds once it is told to."""

    def __init__(self) -> None:
        self.healed = threading.Event()
        self.asked = 0

    def responds(self) -> bool:
        self.asked += 1
        return self.healed.is_set()


def fail(breaker: CircuitBreaker) -> None:
    with pytest.raises(redis_py.TimeoutError, match="slow"), breaker.guard():
        raise redis_py.TimeoutError("slow")


def test_one_time_limit_trips_it_and_an_answer_resets_it() -> None:
    server = Server()
    breaker = CircuitBreaker(server.responds, probe_every_s=0.01)
    with breaker.guard():
        pass
    fail(breaker)
    assert breaker.tripped
    for _ in range(CALLS):
        with pytest.raises(RedisHangs, match="has not responded for"), breaker.guard():
            pytest.fail("it was called")
    server.healed.set()
    until_reset(breaker)
    with breaker.guard():
        pass
    assert server.asked >= 1


def test_errors_that_cost_nothing_do_not_trip_it() -> None:
    breaker = CircuitBreaker(Server().responds)
    for error in (redis_py.ConnectionError("refused"), redis_py.ResponseError("wrong type")):
        with pytest.raises(type(error)), breaker.guard():
            raise error
    assert not breaker.tripped


def test_a_call_that_was_merely_unlucky_costs_next_to_nothing() -> None:
    server = Server()
    server.healed.set()
    breaker = CircuitBreaker(server.responds, probe_every_s=3600)
    fail(breaker)
    until_reset(breaker)  # it is asked at once, not after the first interval


def test_of_calls_at_the_same_time_one_begins_to_ask(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    breaker = CircuitBreaker(server.responds, probe_every_s=0.01)
    for _ in range(3):
        with pytest.raises(redis_py.TimeoutError), breaker.watch():
            raise redis_py.TimeoutError("slow")
    server.healed.set()
    until_reset(breaker)
    told = [line for line in caplog.messages if "does not respond" in line]
    assert len(told) == 1


def seconds(call: Any) -> float:
    began = time.monotonic()
    with pytest.raises(redis_py.TimeoutError):
        call()
    return time.monotonic() - began


def test_a_hanging_server_costs_one_time_limit_whichever_client_asks(redis_server: RedisServer) -> None:
    client = redis.client()
    client.set("a", "1")
    assert task_queue.queue_length() == 0
    with hanging(redis_server):
        assert seconds(client.ping) >= redis.timeout_s() / 2
        others = (
            client.ping,
            lambda: client.pipeline().get("a").execute(),
            task_queue.queue_length,
            redis.short_timeout_client().ping,
        )
        began = time.monotonic()
        for _ in range(CALLS):
            for call in others:
                with pytest.raises(RedisHangs):
                    call()
        assert time.monotonic() - began < CALLS * redis.timeout_s() / 2
    assert client.get("a") == b"1"
    assert task_queue.queue_length() == 0


async def test_clients_of_an_event_loop_share_it(redis_server: RedisServer) -> None:
    client: Any = redis.async_client()
    await client.set("a", "1")
    with hanging(redis_server):
        with pytest.raises(redis_py.TimeoutError):
            await client.get("a")
        with pytest.raises(RedisHangs):
            await client.get("a")
        with pytest.raises(RedisHangs):
            redis.client().ping()
    assert await client.get("a") == b"1"
    await client.aclose()


def test_the_channel_layer_does_not_wait_for_ever(redis_server: RedisServer) -> None:
    async def send() -> None:
        layer: Any = get_channel_layer()
        await layer.group_send("group", {"type": "live.frame"})
        with hanging(redis_server):
            with pytest.raises(redis_py.TimeoutError):
                await layer.group_send("group", {"type": "live.frame"})
            with pytest.raises(RedisHangs):
                await layer.group_send("group", {"type": "live.frame"})
        await layer.group_send("group", {"type": "live.frame"})
        await layer.flush()

    async_to_sync(send)()


def test_packets_that_are_swallowed_are_a_hang_too() -> None:
    with unaccepting_port() as port:
        client = redis.shared_client(f"redis://127.0.0.1:{port}/0")
        assert seconds(client.ping) >= redis.timeout_s() / 2
        with pytest.raises(RedisHangs):
            client.ping()
    breaker = redis.circuit_breaker(f"redis://127.0.0.1:{port}/1")
    until_reset(breaker)  # nothing listens any more: calls are refused, which costs nothing
    with pytest.raises(redis_py.ConnectionError):
        client.ping()


def test_a_server_that_is_gone_is_asked_each_time(redis_server: RedisServer) -> None:
    """It refuses at once; and nobody waits for a probe when it is back."""
    client = redis.client()
    client.ping()
    redis_server.stop()
    with pytest.raises(redis_py.ConnectionError):
        client.ping()
    redis_server.start()
    assert client.ping()


def test_a_web_process_waits_half_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "_timeout_s", redis.TIMEOUT_S)
    redis.hurry()
    assert redis.timeout_s() == redis.WEB_TIMEOUT_S <= 0.5
    options = task_queue.hurried({"visibility_timeout": 60, "socket_timeout": 10})
    assert options == {
        "visibility_timeout": 60,
        "socket_timeout": 0.5,
        "socket_connect_timeout": 0.5,
        "max_retries": 0,
    }
