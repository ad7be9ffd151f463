"""What waits: tasks in the queue, and probes that are due. Read from Redis at each scrape."""

import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import redis
from django.conf import settings
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.datastores.redis import TIMEOUT_S
from controlplane.datastores.redis import client as redis_client
from controlplane.probes import keys

QUEUE = "celery"

logger = logging.getLogger(__name__)


class ProbeLag(NamedTuple):
    scheduled: int
    """Replicas that are probed."""
    overdue: int
    """Of these, how many are due and not claimed by any worker."""
    lag_s: float
    """How long the one that waits longest has been due; 0: none is."""


def probe_lag(client: "redis.Redis") -> ProbeLag:
    """By the clock of Redis. Raises redis.RedisError."""
    seconds, microseconds = client.time()
    now_ms = int(seconds) * 1000 + int(microseconds) // 1000
    pipeline = client.pipeline(transaction=False)
    pipeline.zcard(keys.DUE)
    pipeline.zcount(keys.DUE, "-inf", f"({now_ms}")
    pipeline.zrange(keys.DUE, 0, 0, withscores=True)
    scheduled, overdue, first = pipeline.execute()
    lag_s = max(now_ms - first[0][1], 0.0) / 1000 if first else 0.0
    return ProbeLag(int(scheduled), int(overdue), round(lag_s, 3))


def queue_length() -> int:
    """Tasks that no worker has taken yet. Raises redis.RedisError."""
    return int(_broker(settings.BROKER_REDIS_URL).llen(QUEUE))


@lru_cache(maxsize=4)
def _broker(url: str) -> "redis.Redis":
    return redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)


class QueueCollector(Collector):
    """Left out while Redis is away: a number that cannot be read is not 0."""

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """So that registering it asks Redis nothing."""
        return iter(self._families(0, ProbeLag(0, 0, 0.0)))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            yield from self._families(queue_length(), probe_lag(redis_client()))
        except redis.RedisError as error:
            logger.info("queue and probe lag cannot be read: %s", error)

    def _families(self, length: int, lag: ProbeLag) -> list[GaugeMetricFamily]:
        return [
            GaugeMetricFamily("switchyard_task_queue_length", "Tasks no worker has taken yet.", length),
            GaugeMetricFamily("switchyard_probes_scheduled", "Replicas that are probed.", lag.scheduled),
            GaugeMetricFamily("switchyard_probes_overdue", "Probes due and taken by nobody.", lag.overdue),
            GaugeMetricFamily(
                "switchyard_probe_lag_seconds", "How long the most overdue probe has been due.", lag.lag_s
            ),
        ]
