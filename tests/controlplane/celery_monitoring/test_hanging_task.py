"""A task that hangs ends its worker, whose successor does what was acknowledged late again."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest
import redis
from django.conf import settings

from controlplane.celery import app
from controlplane.observability import watchdog
from controlplane.observability.process import ThisProcess
from controlplane.observability.watchdog import Watchdog
from tests.proxy_process import ROOT, until

pytestmark = pytest.mark.any_database
RUNS, DONE = "test:runs", "test:done"
"""As in hanging_app, which changes settings and is not imported here."""
APP = "tests.controlplane.celery_monitoring.hanging_app:app"
WORKER = [sys.executable, "-m", "celery", "--quiet", "-A", APP, "worker"]
WORKER += ["--pool", "threads", "--concurrency", "2", "--loglevel", "warning"]
WORKER += ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def worker(log: IO[bytes]) -> "subprocess.Popen[bytes]":
    environment = os.environ | {
        "SWITCHYARD_DATABASE_URL": f"sqlite://{settings.DATABASES['default']['NAME']}"
    }
    return subprocess.Popen(WORKER, cwd=ROOT, env=environment, stdout=log, stderr=log)


@pytest.mark.django_db(transaction=True)
def test_a_task_that_hangs_ends_its_worker(
    fresh_stores: None, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    log = tmp_path / "worker.log"
    processes = []
    with log.open("wb") as output:
        try:
            processes.append(first := worker(output))
            app.send_task("test.hangs_at_first")
            until(lambda: redis_client.get(RUNS), "it hangs")
            app.send_task("test.ends", ("beside it",))
            until(lambda: redis_client.sismember(DONE, "beside it"), "others go on meanwhile")
            status = until(lambda: first.poll(), "the worker ends")
            assert status == watchdog.EXIT_STATUS, log.read_text()
            assert "test.hangs_at_first has run for" in log.read_text()
            assert "in hangs_at_first" in log.read_text(), "the stack of what hangs"
            app.send_task("test.ends", ("after it",))
            processes.append(worker(output))
            until(lambda: redis_client.sismember(DONE, "after it"), "its successor works")
            until(lambda: redis_client.sismember(DONE, "late"), "and does it again")
        finally:
            for each in processes:
                each.kill()
                each.wait()
    assert int(redis_client.get(RUNS) or 0) == 2


def passed(hanging: Watchdog, seconds: float, monkeypatch: pytest.MonkeyPatch) -> str:
    base = hanging._checked_at
    monkeypatch.setattr(time, "monotonic", lambda: base + seconds)
    try:
        return hanging.look()
    finally:
        monkeypatch.undo()


def test_a_worker_that_was_frozen_may_finish_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    process, over = ThisProcess(), "tick has run for 3600 s"
    process.hanging = lambda: over
    hanging = Watchdog(process, lambda: "ok", check_every_s=5.0, grace_s=15.0)
    found = [passed(hanging, seconds, monkeypatch) for seconds in (3600.0, 5.0, 5.0)]
    assert found == ["", "", over]
    over = ""
    assert passed(hanging, 5.0, monkeypatch) == ""
    over = "tick has run for 91 s"
    assert [passed(hanging, 5.0, monkeypatch) for _ in range(4)] == ["", "", "", over]
