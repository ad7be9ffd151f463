"""The proxies' reports as they lie in Redis, each with its age by the clock of Redis."""

import logging
from dataclasses import dataclass

import msgspec
import redis

from controlplane.telemetry.merge import Heard
from routing.contract.redis_keys import MANIFEST_ACKS, REPORTS, WORKERS, fleet_acks_key
from routing.contract.telemetry import decode_report

FORGET_S = 60.0
"""A worker silent for this long is forgotten: its name, report and acknowledgements are deleted."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Inbox:
    now_ms: int
    """Redis's clock when the reports were read."""
    heard: list[Heard]
    silent: list[str]
    """Workers to be forgotten."""


def read(client: "redis.Redis") -> Inbox:
    """One round trip. Raises redis.RedisError. A report that cannot be read is left out, with a log line."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.zrange(WORKERS, 0, -1, withscores=True)
    pipeline.hgetall(REPORTS)
    (seconds, microseconds), workers, reports = pipeline.execute()
    now = seconds + microseconds / 1_000_000
    heard, silent = [], []
    for name, at in workers:
        if now - at > FORGET_S:
            silent.append(name.decode())
        elif body := reports.get(name):
            try:
                heard.append(Heard(decode_report(body), max(now - at, 0.0)))
            except msgspec.MsgspecError as error:
                logger.warning("the report of worker %s cannot be read: %s", name.decode(), error)
    return Inbox(int(now * 1000), heard, silent)


def forget(pipeline: "redis.client.Pipeline", workers: list[str], fleets: list[str]) -> None:
    """Queue the deletion of everything that silent workers left."""
    if workers:
        pipeline.zrem(WORKERS, *workers)
        pipeline.hdel(REPORTS, *workers)
        for key in (MANIFEST_ACKS, *map(fleet_acks_key, fleets)):
            pipeline.hdel(key, *workers)
