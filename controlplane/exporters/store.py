"""Store of readings: one Redis hash, exporter → its last reading as JSON."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import redis

from controlplane.exporters.readings import ExporterReading
from routing.contract.decode_errors import DECODE_ERRORS

KEY = "sy:exporters"


def keep(client: "redis.Redis", readings: Iterable[ExporterReading], present: Collection[str]) -> None:
    """``present``: names of all exporters; what others have said is forgotten. Raises redis.RedisError."""
    stored: dict[Any, Any] = {one.exporter: msgspec.json.encode(one) for one in readings}
    kept: list[Any] = client.hkeys(KEY)
    gone = [name for name in kept if name.decode() not in present]
    pipeline = client.pipeline()
    if stored:
        pipeline.hset(KEY, mapping=stored)
    if gone:
        pipeline.hdel(KEY, *gone)
    pipeline.execute()


def read(client: "redis.Redis") -> list[ExporterReading]:
    """By name. Raises redis.RedisError."""
    found = []
    for _, text in sorted(client.hgetall(KEY).items()):
        try:
            found.append(msgspec.json.decode(text, type=ExporterReading))
        except DECODE_ERRORS:  # another version's
            continue
    return found
