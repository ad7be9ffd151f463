"""Load reports (ORCA) of replicas, as the probes have read them. Kept in Redis only."""

import redis

from routing.contract.load_report import ReportedLoad, decode_stored
from routing.contract.redis_keys import LOADS


def read(client: "redis.Redis") -> dict[str, ReportedLoad]:
    """All last reports by replica uid, each with its age by the clock of Redis. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(LOADS)
    now, stored = pipeline.execute()
    now_ms = now[0] * 1000 + now[1] // 1000
    found = {uid.decode(): decode_stored(text, now_ms) for uid, text in stored.items()}
    return {uid: report for uid, report in found.items() if report is not None}
