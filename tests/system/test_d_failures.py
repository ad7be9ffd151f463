"""What dies comes back, what is lost is made again, and requests go on meanwhile."""

import os
import signal
from collections import Counter

import pytest
import redis

from routing.contract import redis_keys
from tests.proxy_process import until
from tests.system.stack import Stack, Traffic, exchange, is_open

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

LANGUAGE_MODELS = ("quick", "steady", "deep", "wide")
CHAT = {"model": "tiny-llm", "max_tokens": 4, "messages": [{"role": "user", "content": "bala kiru"}]}


def test_a_killed_conductor_is_started_again(stack: Stack) -> None:
    (first,) = stack.pids("manage.py conductor")
    os.kill(first, signal.SIGKILL)
    (second,) = until(lambda: [pid for pid in stack.pids("manage.py conductor") if pid != first], "a new one")
    assert second != first
    until(lambda: "conductor ended (terminated by SIGKILL) and is restarted" in stack.said, "it is told")
    at = stack.api("GET", "/live")["frame"]["at"]
    until(lambda: stack.api("GET", "/live")["frame"]["at"] > at, "frames go on", 60)


def test_a_killed_replica_costs_no_request_and_comes_back(stack: Stack) -> None:
    """What was in flight there is asked again elsewhere. Only the restarted server itself may refuse, for
    the moment in which it listens already and still loads its model."""
    until(lambda: stack.eligible("tiny-llm") == set(LANGUAGE_MODELS), "all are ready", 90)
    with Traffic(stack, "/v1/chat/completions", CHAT) as traffic:
        busiest = Counter(one.replica for one in traffic.seen).most_common(1)[0][0]
        port = stack.examples_port + 1 + LANGUAGE_MODELS.index(busiest)
        (pid,) = stack.pids("examples.tiny_llm.server", f"--replica {busiest}")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_open(port), "nobody listens")
        until(lambda: is_open(port), "somebody listens again", 60)
        until(lambda: busiest in stack.eligible("tiny-llm"), "it is trusted again", 60)
    assert [one for one in traffic.failures() if "Loading model" not in one.said] == []


def test_an_emptied_redis_is_filled_again_within_five_seconds(stack: Stack) -> None:
    keys = [redis_keys.MANIFEST, redis_keys.fleet_key("digits"), redis_keys.fleet_key("tiny-llm")]
    with redis.Redis(unix_socket_path=str(stack.data / "redis" / "redis.sock")) as client:
        before = client.hmget(redis_keys.fleet_key("digits"), "epoch", "version")
        with Traffic(stack) as traffic:
            client.flushall()
            until(lambda: client.exists(*keys) == len(keys), "the table is there again", 5)
        assert client.hmget(redis_keys.fleet_key("digits"), "epoch", "version") == before
    assert traffic.failures() == []


def test_a_killed_redis_costs_no_request(stack: Stack) -> None:
    (pid,) = stack.pids("redis.sock")
    live = "/api/v1/live"
    token = {"Authorization": f"Token {stack.token}"}
    with Traffic(stack) as traffic:
        os.kill(pid, signal.SIGKILL)
        until(lambda: [new for new in stack.pids("redis.sock") if new != pid], "a new one")
        until(lambda: exchange(stack.port, "GET", live, None, token).status == 200, "Redis is back", 60)
        until(lambda: stack.api("GET", "/live")["age_s"] is not None, "frames are there again", 60)
    assert traffic.failures() == []
