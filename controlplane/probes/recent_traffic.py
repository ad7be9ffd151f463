"""Recent traffic (passive health checks): which replicas served requests lately, from conductor to probers.

A saturated replica is slow to answer probes. While it serves live traffic, probe timeouts alone do
not take it down; without news of its traffic for RECENT_TRAFFIC_S, they do again. Kept in Redis.
"""

from collections.abc import Mapping, Sequence

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


def answering(client: "redis.Redis", uids: Sequence[str]) -> set[str]:
    """Those that answered live traffic within RECENT_TRAFFIC_S. Raises redis.RedisError."""
    if not uids:
        return set()
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hmget(RECENT_TRAFFIC_KEY, list(uids))
    (seconds, microseconds), answered = pipeline.execute()
    oldest = int(seconds) * 1000 + int(microseconds) // 1000 - RECENT_TRAFFIC_S * 1000
    return {uid for uid, at in zip(uids, answered, strict=True) if at is not None and int(at) >= oldest}
