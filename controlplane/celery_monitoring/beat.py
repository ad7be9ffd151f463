"""Celery's scheduler: elected among several; piles up no tasks that no worker takes; counts what it does."""

import logging
import time
from contextlib import suppress
from typing import Any

import redis
from celery import signals
from celery.beat import Scheduler, SchedulingError

from controlplane.celery_monitoring.start_checks import refuse_foreign_redis
from controlplane.datastores import task_queue
from controlplane.datastores.redis import client as redis_client
from controlplane.observability import metrics, metrics_listener, process_heartbeats, watchdog
from controlplane.observability.outages import Outages
from controlplane.observability.process import this_process
from controlplane.telemetry.leader_election import Leadership

LEADER_KEY = "sy:beat:leader"
"""String: the token of the beat that sends."""
RENEW_EVERY_S = 1.0
SET_BACK_S = 1.0
"""By so much the wall clock was not slewed, but set."""

logger = logging.getLogger(__name__)


class InstrumentedScheduler(Scheduler):
    """The plain scheduler: it keeps nothing on disk, because what is due is due by the clock, and a file that
    cannot be written would end it. Of several on one Redis one sends, elected as conductors are; while Redis
    is away none could. Each iteration of its loop is this process's heartbeat."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._leadership = Leadership(redis_client(), key=LEADER_KEY)
        self._outages = Outages(logger)
        self._leads = self._full = False
        self._clock_offset = _clock_offset()
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        leads = self._hold_lease()
        if leads != self._leads:
            logger.info("this beat %s", "sends what is due" if leads else "stands by: another one sends")
        self._leads = leads
        self._follow_clock()
        wait_s: float = min(super().tick(*args, **kwargs), RENEW_EVERY_S) if leads else RENEW_EVERY_S
        metrics.BEAT_TICKS.inc()
        this_process.loop_heartbeat.record()
        this_process.ready.set()
        return wait_s

    def _follow_clock(self) -> None:
        """Celery reckons by the wall clock: if that is set back, nothing would be due until it is as late as
        it was."""
        before, self._clock_offset = self._clock_offset, _clock_offset()
        set_back_s = before - self._clock_offset
        if set_back_s > SET_BACK_S:
            logger.warning("the clock was set back by %.0f s: the schedule begins anew", set_back_s)
            for entry in self.schedule.values():
                entry.last_run_at = entry.default_now()
            self.populate_heap()

    def _hold_lease(self) -> bool:
        try:
            leads = self._leadership.hold()
        except redis.RedisError as error:
            self._outages.away("Redis", error)
            return False
        self._outages.back("Redis")
        return leads

    def close(self) -> None:
        """Have another one send at once."""
        with suppress(redis.RedisError):
            self._leadership.release()
        super().close()

    def apply_async(self, entry: Any, *args: Any, **kwargs: Any) -> Any:
        """None: it was left out, and comes again when it is due again."""
        try:
            if self._is_full():
                metrics.BEAT_SENT.labels(entry.task, "skipped").inc()
                return None
            sent = super().apply_async(entry, *args, **kwargs)
        except redis.RedisError as error:
            metrics.BEAT_SENT.labels(entry.task, "failed").inc()
            self._outages.away("the task queue", error)
            return None
        except SchedulingError:
            metrics.BEAT_SENT.labels(entry.task, "failed").inc()
            raise
        metrics.BEAT_SENT.labels(entry.task, "sent").inc()
        self._outages.back("the task queue")
        return sent

    def _is_full(self) -> bool:
        """The log has it when that changes. Raises redis.RedisError."""
        full = task_queue.is_full()
        if full and not self._full:
            most = task_queue.MOST_WAITING
            logger.warning("%d tasks wait and no worker takes them: further ones are left out", most)
        elif self._full and not full:
            logger.warning("workers take tasks again")
        self._full = full
        return full


def _clock_offset() -> float:
    """Seconds from the monotonic clock to the wall clock."""
    return time.time() - time.monotonic()


@signals.beat_init.connect
def _beat_begins(**_: Any) -> None:
    this_process.set_role("beat")
    refuse_foreign_redis()
    metrics_listener.start()
    process_heartbeats.start()
    watchdog.start()
