"""Probe lag: how many probes are due and not begun, and for how long."""

from typing import NamedTuple

import redis

from controlplane.probes import keys


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
