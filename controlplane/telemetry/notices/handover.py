"""Leader handover: what one leader leaves in Redis for the next, with times in milliseconds of its clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis


@dataclass(frozen=True, slots=True)
class LeaderHandover:
    client: "redis.Redis"
    now: float
    """Monotonic seconds, at the same moment as ``now_ms``."""
    now_ms: int
    """By Redis's clock."""

    def load(self, key: str) -> dict[bytes, float]:
        """Field → monotonic seconds. Raises redis.RedisError."""
        stored: Any = self.client.hgetall(key)
        return {field: self.now + (int(at_ms) - self.now_ms) / 1000 for field, at_ms in stored.items()}

    def replace(self, key: str, times: Mapping[bytes, float], *, expire_s: int | None = None) -> None:
        """Instead of all that was there; nothing: the key goes. Raises redis.RedisError."""
        pipeline = self.client.pipeline(transaction=True)
        pipeline.delete(key)
        if times:
            mapping: Mapping[Any, Any] = {field: self._in_ms(at) for field, at in times.items()}
            pipeline.hset(key, mapping=mapping)
            if expire_s is not None:
                pipeline.expire(key, expire_s)
        pipeline.execute()

    def _in_ms(self, at: float) -> int:
        return self.now_ms + round((at - self.now) * 1000)
