"""Recent traffic (passive health checks): which replicas served requests lately, from conductor to probers.

A saturated replica is slow to answer probes. While it serves live traffic, probe timeouts alone do
not take it down; without news of its traffic for RECENT_TRAFFIC_S, they do again. Kept in Redis.
"""

from collections.abc import Mapping

import redis

RECENT_TRAFFIC_KEY = "sy:live:answering"
"""Hash: replica uid → ms of Redis's clock at which a proxy last reported a successful response."""

RECENT_TRAFFIC_S = 10.0


def store(pipeline: "redis.client.Pipeline", answered_ms: Mapping[str, int]) -> None:
    """Replace the whole hash; takes effect when the pipeline (a transaction) is executed."""
    pipeline.delete(RECENT_TRAFFIC_KEY)
    if answered_ms:
        pipeline.hset(RECENT_TRAFFIC_KEY, mapping={uid: str(at_ms) for uid, at_ms in answered_ms.items()})
        pipeline.expire(RECENT_TRAFFIC_KEY, int(RECENT_TRAFFIC_S) + 1)


def is_answering(client: "redis.Redis", uid: str) -> bool:
    """Whether the replica answered live traffic within RECENT_TRAFFIC_S. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hget(RECENT_TRAFFIC_KEY, uid)
    (seconds, microseconds), answered = pipeline.execute()
    if answered is None:
        return False
    return int(seconds) * 1000 + int(microseconds) // 1000 - int(answered) <= RECENT_TRAFFIC_S * 1000
