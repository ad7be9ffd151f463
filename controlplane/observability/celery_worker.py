"""The Celery worker, watched: its tasks by name and outcome, and whether its loop turns."""

import logging
import time
from typing import Any

from celery import bootsteps, signals
from django.conf import settings

from controlplane.observability import metrics, metrics_listener, process_heartbeats
from controlplane.observability.process import this_process
from controlplane.observability.queues import QueueCollector

LOOP_HEARTBEAT_S = 1.0
COUNTED_POOLS = ("thread", "solo")

logger = logging.getLogger(__name__)
_began: dict[str, float] = {}


class LoopHeartbeatStep(bootsteps.StartStopStep):
    """Beats with the worker's own timer: it stands still when the worker's loop does."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._entry: Any = None

    def start(self, parent: Any) -> None:
        this_process.loop_heartbeat.beat()
        self._entry = parent.timer.call_repeatedly(LOOP_HEARTBEAT_S, this_process.loop_heartbeat.beat)

    def stop(self, parent: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()


def watch(app: Any) -> None:
    """Have every worker of this app watched."""
    app.steps["worker"].add(LoopHeartbeatStep)
    signals.celeryd_init.connect(_this_is_a_worker)
    signals.worker_init.connect(_worker_begins)
    signals.worker_ready.connect(_worker_is_ready)
    signals.task_prerun.connect(_task_begins)
    signals.task_postrun.connect(_task_ended)
    signals.task_revoked.connect(_task_revoked)
    signals.task_rejected.connect(_task_rejected)


def _this_is_a_worker(**_: Any) -> None:
    this_process.become("worker")


def _worker_begins(**_: Any) -> None:
    metrics_listener.start(QueueCollector())
    process_heartbeats.start()


def _worker_is_ready(sender: Any = None, **_: Any) -> None:
    this_process.ready.set()
    pool = sender.pool.__class__.__module__.rpartition(".")[2]
    if settings.METRICS_LISTEN is not None and pool not in COUNTED_POOLS:
        logger.warning(
            "the pool %s runs tasks in processes whose counts /metrics does not see: use --pool threads", pool
        )


def _task_begins(task_id: str = "", **_: Any) -> None:
    _began[task_id] = time.monotonic()
    metrics.TASKS_IN_FLIGHT.inc()


def _task_ended(task_id: str = "", task: Any = None, state: str | None = None, **_: Any) -> None:
    began = _began.pop(task_id, None)
    if began is None or task is None:
        return
    metrics.TASKS_IN_FLIGHT.dec()
    metrics.TASK_DURATION.labels(task.name).observe(time.monotonic() - began)
    metrics.TASKS.labels(task.name, (state or "success").lower()).inc()


def _task_revoked(sender: Any = None, **_: Any) -> None:
    metrics.TASKS.labels(getattr(sender, "name", "(unknown)"), "revoked").inc()


def _task_rejected(**_: Any) -> None:
    metrics.TASKS.labels("(unknown)", "rejected").inc()
