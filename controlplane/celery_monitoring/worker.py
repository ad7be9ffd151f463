"""Monitoring of the Celery worker: tasks by name and outcome, whether one hangs, and its main loop."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
from celery import bootsteps, signals
from celery.worker.consumer import Connection, Events
from django.conf import settings

from controlplane.celery import app
from controlplane.celery_monitoring.queue_metrics import QueueCollector
from controlplane.celery_monitoring.running_tasks import running_tasks
from controlplane.celery_monitoring.start_checks import refuse_foreign_redis
from controlplane.datastores import task_queue
from controlplane.observability import metrics, metrics_listener, process_heartbeats, watchdog
from controlplane.observability.process import this_process
from controlplane.probes import recorder
from controlplane.publishing import redis_owner

LOOP_HEARTBEAT_S = 1.0
WRITABLE_POLL_S = 0.5
COUNTED_POOLS = ("thread", "solo")

logger = logging.getLogger(__name__)


class LoopHeartbeatStep(bootsteps.StartStopStep):
    """Recorded by the worker's own timer: it stops when the worker's loop does."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._entry: Any = None

    def start(self, parent: Any) -> None:
        this_process.loop_heartbeat.record()
        self._entry = parent.timer.call_repeatedly(LOOP_HEARTBEAT_S, self._turn)

    def _turn(self) -> None:
        this_process.loop_heartbeat.record()
        running_tasks.look()

    def stop(self, parent: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()


app.steps["worker"].add(LoopHeartbeatStep)


class OwnRedisStep(bootsteps.StartStopStep):
    """After each connection to Redis, and before anything is done there: whose it is may have changed."""

    requires = (Connection,)

    def start(self, parent: Any) -> None:
        redis_owner.wait_until_ours(this_process.loop_heartbeat.record)


class WritableRedisStep(bootsteps.StartStopStep):
    """Before Celery connects, which writes: a refusal of that would end the process."""

    def start(self, parent: Any) -> None:
        with suppress(redis.RedisError):  # it is away, which Celery itself waits for
            _wait_until_writable(this_process.loop_heartbeat.record)


def _wait_until_writable(meanwhile: Callable[[], None]) -> None:
    """Raises redis.RedisError."""
    refused = task_queue.write_refusal()
    if refused is None:
        return
    logger.warning("the task queue is not used yet: Redis is %s. %s", refused.words, refused.cure)
    while task_queue.write_refusal() is not None:
        meanwhile()
        time.sleep(WRITABLE_POLL_S)
    logger.warning("Redis takes writes again: the task queue is used")


app.steps["consumer"].add(OwnRedisStep)
app.steps["consumer"].add(WritableRedisStep)
Connection.requires = (WritableRedisStep,)
# All other steps need these, by way of it.
Events.requires = (Connection, OwnRedisStep)


@signals.celeryd_init.connect
def _this_is_a_worker(**_: Any) -> None:
    this_process.set_role("worker")
    this_process.hanging = lambda: running_tasks.hanging() or recorder.hanging()


@signals.worker_init.connect
def _worker_begins(**_: Any) -> None:
    refuse_foreign_redis()
    metrics_listener.start(QueueCollector())
    process_heartbeats.start()
    watchdog.start()


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
def _task_begins(task_id: str = "", task: Any = None, **_: Any) -> None:
    limit_s = getattr(task, "time_limit", None) or settings.CELERY_TASK_TIME_LIMIT
    soft_limit_s = getattr(task, "soft_time_limit", None) or settings.CELERY_TASK_SOFT_TIME_LIMIT
    running_tasks.begin(task_id, getattr(task, "name", "(unknown)"), soft_limit_s, limit_s)
    metrics.TASKS_IN_FLIGHT.inc()


@signals.task_postrun.connect
def _task_ended(task_id: str = "", task: Any = None, state: str | None = None, **_: Any) -> None:
    took_s = running_tasks.end(task_id)
    if took_s is None or task is None:
        return
    metrics.TASKS_IN_FLIGHT.dec()
    metrics.TASK_DURATION.labels(task.name).observe(took_s)
    metrics.TASKS.labels(task.name, (state or "success").lower()).inc()


@signals.task_revoked.connect
def _task_revoked(sender: Any = None, **_: Any) -> None:
    metrics.TASKS.labels(getattr(sender, "name", "(unknown)"), "revoked").inc()


@signals.task_rejected.connect
def _task_rejected(**_: Any) -> None:
    metrics.TASKS.labels("(unknown)", "rejected").inc()
