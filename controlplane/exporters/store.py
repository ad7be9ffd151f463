"""Store of readings: one Redis hash, exporter → its last reading as JSON.

Beside it a text that is another one after each writing. While it is the same, so are the readings: whoever
looks each second opens what was written since he last looked, not all of it again.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
import redis

from controlplane.exporters.readings import ExporterReading
from routing.contract.decode_errors import DECODE_ERRORS

KEY = "sy:exporters"
WRITTEN = "sy:exporters:written"
LOOK_AGAIN_S = 10.0
"""An older version of the worker writes readings and no text."""


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
    pipeline.set(WRITTEN, uuid.uuid4().hex)
    pipeline.execute()


def read(client: "redis.Redis") -> list[ExporterReading]:
    """By name. Raises redis.RedisError."""
    return ReadingsReader().read(client)


class ReadingsReader:
    """Reads them again and again. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: bytes | None = None
        self._read_at = float("-inf")
        self._known: dict[bytes, tuple[bytes, ExporterReading]] = {}
        """Exporter → its reading as it is stored, and opened."""
        self._readings: list[ExporterReading] = []

    def read(self, client: "redis.Redis") -> list[ExporterReading]:
        """By name; the very same list while nothing has changed. Raises redis.RedisError."""
        written: Any = client.get(WRITTEN)
        now = self._clock()
        if written == self._written and now - self._read_at < LOOK_AGAIN_S:
            return self._readings
        # What is written in between is read now, and once more the next time.
        stored: dict[Any, Any] = client.hgetall(KEY)
        self._written, self._read_at = written, now
        if stored.keys() != self._known.keys() or any(
            text != self._known[name][0] for name, text in stored.items()
        ):
            self._open(stored)
        return self._readings

    def _open(self, stored: dict[bytes, bytes]) -> None:
        before, self._known = self._known, {}
        for name, text in sorted(stored.items()):
            if name in before and before[name][0] == text:
                self._known[name] = before[name]
                continue
            try:
                self._known[name] = text, msgspec.json.decode(text, type=ExporterReading)
            except DECODE_ERRORS:  # another version's
                continue
        self._readings = [reading for _, reading in self._known.values()]
