"""Acknowledgements: how many proxy workers route from a version ("has my change arrived?")."""

import time
from typing import NamedTuple

import msgspec
from redis.exceptions import RedisError

from controlplane.datastores import redis
from routing.contract import redis_keys
from routing.contract.table import Version
from routing.contract.telemetry import Acknowledgement, decode_acknowledgement

POLL_S = 0.004
SLOW_POLL_S = 0.02
"""Where it has taken longer than a change takes: then many wait, or a worker is away."""
SLOW_AFTER_S = 0.1


class Acknowledged(NamedTuple):
    live: int
    """Workers heard within the last WORKER_TTL_S seconds."""
    applied: int
    """Of these, how many route from the version asked for or a newer one."""
    refused: int
    """Of the others, how many said that they cannot."""
    waited_ms: float


def acknowledged(fleet: str, version: Version, wait_s: float = 0.25) -> Acknowledged:
    """Waits until every live worker has applied ``version`` of the fleet, at most ``wait_s`` seconds.

    Answers at once when no worker lives or Redis is away (0 live).
    """
    return _awaited(redis_keys.fleet_acks_key(fleet), version, wait_s)


def manifest_acknowledged(version: Version, wait_s: float = 0.25) -> Acknowledged:
    """As :func:`acknowledged`, of the manifest: which fleets there are, their names, client keys."""
    return _awaited(redis_keys.MANIFEST_ACKS, version, wait_s)


def _awaited(acks_key: str, version: Version, wait_s: float) -> Acknowledged:
    began = time.monotonic()
    while True:
        try:
            live, applied, refused = _count(acks_key, version)
        except RedisError:
            live = applied = refused = 0
        waited = time.monotonic() - began
        poll_s = POLL_S if waited < SLOW_AFTER_S else SLOW_POLL_S
        if applied == live or waited + poll_s > wait_s:
            return Acknowledged(live, applied, refused, round(waited * 1000, 1))
        time.sleep(poll_s)


def _count(acks_key: str, version: Version) -> tuple[int, int, int]:
    pipeline = redis.client().pipeline(transaction=False)
    pipeline.time()
    pipeline.zrange(redis_keys.WORKERS, 0, -1, withscores=True)
    pipeline.hgetall(acks_key)
    (seconds, microseconds), heard, answers = pipeline.execute()
    oldest = seconds + microseconds / 1e6 - redis_keys.WORKER_TTL_S
    live = [worker for worker, at in heard if at >= oldest]
    read = [_read(answers.get(worker)) for worker in live]
    applied = sum(1 for ack in read if ack is not None and Version.parse(ack.applied) >= version)
    refused = sum(
        1 for ack in read if ack is not None and ack.refused and Version.parse(ack.applied) < version
    )
    return len(live), applied, refused


def _read(data: bytes | None) -> Acknowledgement | None:
    """None: nothing said, or nothing that can be read."""
    if data is None:
        return None
    try:
        ack = decode_acknowledgement(data)
        Version.parse(ack.applied)
    except (msgspec.MsgspecError, ValueError):
        return None
    return ack
