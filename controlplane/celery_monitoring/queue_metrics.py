"""Queue metrics: tasks that wait, and probes that are due. Read from Redis at each scrape."""

import logging
from collections.abc import Iterator

import redis
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.datastores.redis import client as redis_client
from controlplane.datastores.task_queue import queue_length
from controlplane.probes.lag import ProbeLag, probe_lag

logger = logging.getLogger(__name__)


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
            GaugeMetricFamily("switchyard_task_queue_length", "Tasks that no worker has taken.", length),
            GaugeMetricFamily("switchyard_probes_scheduled", "Replicas that are probed.", lag.scheduled),
            GaugeMetricFamily(
                "switchyard_probes_overdue", "Probes that are due and not started.", lag.overdue
            ),
            GaugeMetricFamily(
                "switchyard_probe_lag_seconds", "How long the most overdue probe has been due.", lag.lag_s
            ),
        ]
