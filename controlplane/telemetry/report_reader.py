"""Report reader: the proxies' reports from Redis, each with its age by the clock of Redis."""

import logging
from dataclasses import dataclass

import redis

from controlplane.observability.heartbeats import Heartbeats
from controlplane.telemetry.merge import ReceivedReport
from controlplane.telemetry.report_decoder import ReportDecoder
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.redis_keys import MANIFEST_ACKS, REPORTS, WORKERS, fleet_acks_key
from routing.contract.telemetry import decode_report

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


def read(client: "redis.Redis", decoder: ReportDecoder | None = None) -> ReceivedReports:
    """One round trip. Raises redis.RedisError. A report that cannot be read is left out, with a log line.
    ``decoder``: of whoever reads again and again."""
    decode = decode_report if decoder is None else decoder.decode
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
    if decoder is not None:
        decoder.forget_all_but([one.report.worker for one in reports])
    return ReceivedReports(int(stored.now * 1000), reports, silent)


def forget(pipeline: "redis.client.Pipeline", workers: list[str], fleets: list[str]) -> None:
    """Queue the deletion of everything that silent workers left."""
    if workers:
        pipeline.zrem(WORKERS, *workers)
        pipeline.hdel(REPORTS, *workers)
        for key in (MANIFEST_ACKS, *map(fleet_acks_key, fleets)):
            pipeline.hdel(key, *workers)
