"""Monitoring of Celery's scheduler: its loop's iterations, and what it handed to the queue."""

from typing import Any

from celery import signals
from celery.beat import PersistentScheduler, SchedulingError

from controlplane.observability import metrics, metrics_listener, process_heartbeats
from controlplane.observability.process import this_process


class InstrumentedScheduler(PersistentScheduler):
    """The persistent scheduler. Each iteration of its loop is this process's heartbeat."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        wait_s: float = super().tick(*args, **kwargs)
        metrics.BEAT_TICKS.inc()
        this_process.loop_heartbeat.record()
        this_process.ready.set()
        return wait_s

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            sent = super().apply_async(entry, *args, **kwargs)
        except SchedulingError:
            metrics.BEAT_SENT.labels(entry.task, "failed").inc()
            raise
        metrics.BEAT_SENT.labels(entry.task, "sent").inc()
        return sent


@signals.beat_init.connect
def _beat_begins(**_: Any) -> None:
    this_process.set_role("beat")
    metrics_listener.start()
    process_heartbeats.start()
