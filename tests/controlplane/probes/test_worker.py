"""Celery for real: beat and workers as processes, and one of them killed in the middle of a batch."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
import redis
from django.conf import settings

from controlplane.models import ReplicaHealth
from controlplane.probes import keys
from controlplane.services import fleets, replicas
from tests.conftest import RedisServer
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.process_group import process_group


def wait_for(what: Callable[[], object], limit_s: float = 40.0) -> None:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < limit_s, "waited in vain"
        time.sleep(0.02)


def celery(*arguments: str) -> "AbstractContextManager[subprocess.Popen[bytes]]":
    database = settings.DATABASES["default"]["NAME"]
    return process_group(
        [sys.executable, "-m", "celery", "-A", "controlplane.celery", *arguments, "--loglevel", "WARNING"],
        os.environ | {"SWITCHYARD_DATABASE_URL": f"sqlite://{database}"},
    )


WORKER = ("worker", "--pool", "threads", "--concurrency", "4", "--without-mingle", "--without-gossip")


@pytest.mark.any_database
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(
    redis_server: RedisServer, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(HttpServer(servers.ready))
        # Without its page of load, which is read beside each probe.
        probe = {"preset": "llama.cpp", "period_s": 0.5, "timeout_s": 3.0, "load_reports": False}
        fleets.create({"name": "tiny", "protocol": "openai", "probe": probe}, "test")
        first = stack.enter_context(celery(*WORKER))
        beat = ("beat", "--schedule", str(tmp_path / "beat"), "--pidfile", "")
        stack.enter_context(celery(*beat))
        replicas.register("tiny", {"name": "a", "url": server.url}, "test")
        wait_for(lambda: ReplicaHealth.objects.filter(state="ready").exists())

        # Running: a replica that is registered now need not wait for its turn.
        replicas.register("tiny", {"name": "b", "url": server.url}, "test")
        wait_for(lambda: ReplicaHealth.objects.filter(state="ready").count() == 2, limit_s=5.0)

        # In the middle of a batch: both probes hang, and their worker dies.
        server.answer = servers.hang
        wait_for(lambda: server.open >= 2)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        assert redis_client.zcard(keys.DUE) == 2
        server.answer = servers.ready
        asked = len(server.requests)
        stack.enter_context(celery(*WORKER))
        wait_for(lambda: len(server.requests) >= asked + 4)
        assert set(ReplicaHealth.objects.values_list("state", flat=True)) == {"ready"}

        # Redis loses everything, the queue included: probing goes on by itself.
        redis_client.flushall()
        asked = len(server.requests)
        wait_for(lambda: len(server.requests) >= asked + 2, limit_s=10.0)
        assert server.most_open <= 2, "no replica was ever probed twice at a time"
