"""Celery for real: beat and workers as processes, and one of them killed in the middle of a batch."""

import os
import signal
import subprocess
import sys
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
from tests.proxy_process import until


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
        until(lambda: ReplicaHealth.objects.filter(state="ready").exists(), "the first is ready")

        # Running: a replica that is registered now need not wait for its turn.
        replicas.register("tiny", {"name": "b", "url": server.url}, "test")
        until(lambda: ReplicaHealth.objects.filter(state="ready").count() == 2, "and the second")

        # In the middle of a batch: both probes hang, and their worker dies.
        server.answer = servers.hang
        until(lambda: server.open >= 2, "two probes hang")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        assert redis_client.zcard(keys.DUE) == 2
        server.answer = servers.ready
        asked = len(server.requests)
        stack.enter_context(celery(*WORKER))
        until(lambda: len(server.requests) >= asked + 4, "the next worker probes")
        assert set(ReplicaHealth.objects.values_list("state", flat=True)) == {"ready"}

        # Redis loses everything, the queue included: probing goes on by itself.
        redis_client.flushall()
        asked = len(server.requests)
        until(lambda: len(server.requests) >= asked + 2, "probing goes on")
        assert server.most_open <= 2, "no replica was ever probed twice at a time"
