"""What replicas say of their load, as the probes have read it. Kept in Redis only."""

import redis

from routing.contract.redis_keys import LOADS
from routing.contract.reported import ReportedLoad, decode_stored


def read(client: "redis.Redis") -> dict[str, ReportedLoad]:
    """All last reports by replica uid, each with its age by the clock of Redis. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(LOADS)
    now, stored = pipeline.execute()
    now_ms = now[0] * 1000 + now[1] // 1000
    found = {uid.decode(): decode_stored(text, now_ms) for uid, text in stored.items()}
    return {uid: report for uid, report in found.items() if report is not None}
