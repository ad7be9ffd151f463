"""What is registered is probed at once: verbs announce it by a signal, which the probes hear."""

import pytest
import redis

from controlplane.celery import app
from controlplane.datastores import task_queue
from controlplane.datastores.task_queue import queue_length
from controlplane.probes import keys
from controlplane.services import fleets, replicas
from tests.conftest import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_new_replica_and_a_new_address_are_due_at_once_and_a_tick_is_asked_for(
    redis_server: RedisServer, redis_client: "redis.Redis"
) -> None:
    fleets.create({"name": "digits", "protocol": "open-inference"}, "test")
    waiting = queue_length()
    row = replicas.register("digits", {"name": "a", "url": "http://127.0.0.1:9"}, "test").replica
    uid = str(row.uid)
    now_ms = redis_client.time()[0] * 1000 + 1000
    assert redis_client.zscore(keys.DUE, uid) <= now_ms
    assert queue_length() == waiting + 1
    redis_client.zadd(keys.DUE, {uid: now_ms + 3_600_000})
    replicas.update("digits", "a", {"weight": 2.0}, "test")
    assert queue_length() == waiting + 1, "nothing new to probe"
    replicas.update("digits", "a", {"url": "http://127.0.0.1:10"}, "test")
    assert redis_client.zscore(keys.DUE, uid) <= redis_client.time()[0] * 1000 + 1000
    assert queue_length() == waiting + 2


def test_while_no_worker_takes_tasks_it_adds_none_to_a_full_queue(
    redis_server: RedisServer, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_queue, "MOST_WAITING", 3)
    fleets.create({"name": "digits", "protocol": "open-inference"}, "test")
    for number in range(6):
        replicas.register("digits", {"name": f"r{number}", "url": f"http://127.0.0.1:{number + 1}"}, "test")
    assert queue_length() == 3
    assert redis_client.zcard(keys.DUE) == 6, "the first tick that a worker takes finds them"


def test_celery_loads_what_watches_its_worker() -> None:
    app.loader.import_default_modules()
    assert "LoopHeartbeatStep" in {step.__name__ for step in app.steps["worker"]}
