"""Monitoring of the Celery worker: its tasks by name and outcome, and whether its main loop is running."""

import logging
import time
from typing import Any

from celery import bootsteps, signals
from django.conf import settings

from controlplane.celery import app
from controlplane.celery_monitoring.queue_metrics import QueueCollector
from controlplane.observability import metrics, metrics_listener, process_heartbeats
from controlplane.observability.process import this_process

LOOP_HEARTBEAT_S = 1.0
COUNTED_POOLS = ("thread", "solo")

logger = logging.getLogger(__name__)
_began: dict[str, float] = {}


class LoopHeartbeatStep(bootsteps.StartStopStep):
    """Recorded by the worker's own timer: it stops when the worker's loop does."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._entry: Any = None

    def start(self, parent: Any) -> None:
        this_process.loop_heartbeat.record()
        self._entry = parent.timer.call_repeatedly(LOOP_HEARTBEAT_S, this_process.loop_heartbeat.record)

    def stop(self, parent: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()


app.steps["worker"].add(LoopHeartbeatStep)


@signals.celeryd_init.connect
def _this_is_a_worker(**_: Any) -> None:
    this_process.set_role("worker")


@signals.worker_init.connect
def _worker_begins(**_: Any) -> None:
    metrics_listener.start(QueueCollector())
    process_heartbeats.start()


@signals.worker_ready.connect
def _worker_is_ready(sender: Any = None, **_: Any) -> None:
    this_process.ready.set()
    pool = sender.pool.__class__.__module__.rpartition(".")[2]
    if settings.METRICS_LISTEN is not None and pool not in COUNTED_POOLS:
        logger.warning(
            "the pool %s runs tasks in other processes, which /metrics does not count: use --pool threads",
            pool,
        )


@signals.task_prerun.connect
def _task_begins(task_id: str = "", **_: Any) -> None:
    _began[task_id] = time.monotonic()
    metrics.TASKS_IN_FLIGHT.inc()


@signals.task_postrun.connect
def _task_ended(task_id: str = "", task: Any = None, state: str | None = None, **_: Any) -> None:
    began = _began.pop(task_id, None)
    if began is None or task is None:
        return
    metrics.TASKS_IN_FLIGHT.dec()
    metrics.TASK_DURATION.labels(task.name).observe(time.monotonic() - began)
    metrics.TASKS.labels(task.name, (state or "success").lower()).inc()


@signals.task_revoked.connect
def _task_revoked(sender: Any = None, **_: Any) -> None:
    metrics.TASKS.labels(getattr(sender, "name", "(unknown)"), "revoked").inc()


@signals.task_rejected.connect
def _task_rejected(**_: Any) -> None:
    metrics.TASKS.labels("(unknown)", "rejected").inc()
