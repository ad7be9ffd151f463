"""Remote control of Celery is off: whoever reaches Redis cannot end a worker."""

from pathlib import Path

import pytest
import redis

from controlplane.celery import app
from tests.controlplane.celery_monitoring.test_hanging_task import DONE, worker
from tests.proxy_process import until

pytestmark = pytest.mark.any_database


@pytest.mark.django_db(transaction=True)
def test_a_worker_obeys_no_broadcast(fresh_stores: None, redis_client: "redis.Redis", tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        process = worker(output)
        try:
            app.send_task("test.ends", ("before",))
            until(lambda: redis_client.sismember(DONE, "before"), "the worker works")
            assert app.control.ping(timeout=1.0) == []
            app.control.shutdown()
            app.send_task("test.ends", ("after",))
            until(lambda: redis_client.sismember(DONE, "after"), "it goes on")
            assert process.poll() is None
            assert "pidbox" not in log.read_text()
        finally:
            process.kill()
            process.wait()
