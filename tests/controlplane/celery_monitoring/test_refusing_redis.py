"""A Celery worker on a Redis that takes no writes waits for one that does."""

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import redis
from django.conf import settings

from tests.conftest import RedisServer
from tests.controlplane.celery_monitoring.test_hanging_task import worker
from tests.controlplane.datastores.refusals import full, read_only
from tests.proxy_process import until

pytestmark = [pytest.mark.any_database, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("refusing", [full, read_only])
def test_it_waits(
    refusing: Callable[[RedisServer], AbstractContextManager[None]],
    fresh_stores: None,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    log = tmp_path / "worker.log"
    process: subprocess.Popen[bytes] | None = None
    try:
        with log.open("wb") as output, refusing(redis_server):
            process = worker(output)
            until(
                lambda: "the task queue is not used yet" in log.read_text() or process.poll() is not None,
                "it waits",
            )
            assert process.poll() is None, log.read_text()
        until(lambda: "Redis takes writes again" in log.read_text(), "it begins")
        with redis.Redis.from_url(settings.BROKER_REDIS_URL) as broker:
            until(lambda: broker.exists("_kombu.binding.celery"), "its queue is declared")
        assert process.poll() is None, log.read_text()
    finally:
        if process is not None:
            process.kill()
            process.wait()
