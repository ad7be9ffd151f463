"""Report reader: the proxies' reports from Redis, each with its age by the clock of Redis."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import redis

from controlplane.observability.heartbeats import Heartbeats
from controlplane.telemetry.merge import ReceivedReport
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.redis_keys import MANIFEST_ACKS, REPORTS, WORKERS, fleet_acks_key
from routing.contract.telemetry import WorkerReport, decode_report

Decode = Callable[[bytes], WorkerReport]
FORGET_S = 60.0
"""A worker silent for this long is forgotten: its name, report and acknowledgements are deleted."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReceivedReports:
    now_ms: int
    """Redis's clock when the reports were read."""
    reports: list[ReceivedReport]
    silent: list[str]
    """Workers to be forgotten."""


def read(client: "redis.Redis", decode: Decode = decode_report) -> ReceivedReports:
    """One round trip. Raises redis.RedisError. A report that cannot be read is left out, with a log line.
    ``decode``: of whoever reads again and again, or wants less. It raises as ``decode_report``."""
    stored = Heartbeats(client, WORKERS, REPORTS)
    reports, silent = [], []
    for heartbeat in stored:
        if heartbeat.age_s > FORGET_S:
            silent.append(heartbeat.name)
        elif heartbeat.body:
            try:
                reports.append(ReceivedReport(decode(heartbeat.body), heartbeat.age_s))
            except DECODE_ERRORS as error:
                logger.warning("the report of worker %s cannot be read: %s", heartbeat.name, error)
    return ReceivedReports(int(stored.now * 1000), reports, silent)


def forget(pipeline: "redis.client.Pipeline", workers: list[str], fleets: list[str]) -> None:
    """Queue the deletion of everything that silent workers left."""
    if workers:
        pipeline.zrem(WORKERS, *workers)
        pipeline.hdel(REPORTS, *workers)
        for key in (MANIFEST_ACKS, *map(fleet_acks_key, fleets)):
            pipeline.hdel(key, *workers)
