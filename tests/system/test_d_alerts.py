"""An alert in the running stack: its webhook arrives, though a worker is killed and Redis emptied between."""

import os
import signal
from collections.abc import Iterator

import pytest
import redis

from tests.controlplane.alerts.receivers import HttpReceiver, http_receiver
from tests.proxy_process import until
from tests.system.stack import Stack, exchange

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

RULE = {"name": "too-few", "metric": "eligible_replicas", "comparison": "below", "value": 99, "for_s": 0}
"""Fires at once: ``tiny-llm`` has four."""


@pytest.fixture
def receiver(stack: Stack) -> Iterator[HttpReceiver]:
    with http_receiver() as running:
        yield running
        for name in ("rules/too-few", "destinations/pager"):
            exchange(stack.port, "DELETE", f"/api/v1/alerts/{name}", None, stack.authorization)


def test_a_webhook_arrives_though_the_worker_is_killed_and_redis_is_emptied(
    stack: Stack, receiver: HttpReceiver
) -> None:
    statuses = iter([503])
    receiver.status = lambda: next(statuses, 200)
    stack.api(
        "POST", "/alerts/destinations", {"name": "pager", "kind": "webhook", "url": f"{receiver.url}/hook"}
    )
    stack.api("POST", "/alerts/rules", {**RULE, "fleet": "tiny-llm", "keep_s": 0})
    until(lambda: receiver.got, "it is asked, and fails", 60)
    workers = stack.pids("celery", "worker")
    os.kill(workers[0], signal.SIGKILL)
    with redis.Redis(unix_socket_path=str(stack.data / "redis" / "redis.sock")) as client:
        client.flushall()
    until(lambda: len(receiver.got) == 2, "it is asked again", 90)
    assert len(set(receiver.ids)) == 1
    assert receiver.got[1].json["alerts"][0]["why"].startswith("eligible_replicas is ")
    stack.api("PATCH", "/alerts/rules/too-few", {"value": 0.5})
    until(lambda: receiver.got[-1].json["status"] == "resolved", "its end is told", 60)
    events = stack.api("GET", "/events?kind=alert&fleet=tiny-llm")["results"]
    assert [event["state"] for event in events if event["state"]][:2] == ["resolved", "firing"]
    until(lambda: stack.api("GET", "/alerts/destinations")["results"][0]["waiting"] == 0, "all is taken", 30)
