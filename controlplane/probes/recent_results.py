"""Recent probe results of one replica, and a probe at once (probe now), for pages and the API.

Kept in Redis only, :data:`keys.MOST_RESULTS` of each replica.
"""

import time

import redis

from controlplane.datastores.redis import client as redis_client
from controlplane.probes import keys
from controlplane.probes.immediate import probe_immediately
from controlplane.probes.last_results import LastProbe, decode

LOOK_EVERY_S = 0.05


def read(uid: str) -> list[LastProbe]:
    """Newest first. Raises redis.RedisError."""
    pipeline = redis_client().pipeline(transaction=False)
    pipeline.time()
    pipeline.lrange(_key(uid), 0, -1)
    now, stored = pipeline.execute()
    results = [decode(now, text) for text in stored]
    return [result for result in results if result is not None]


def probe_now(uid: str, limit_s: float) -> bool:
    """Have it probed at once, as any probe: the result counts. Whether there was one within the limit.

    Raises redis.RedisError.
    """
    client = redis_client()
    ends = time.monotonic() + limit_s
    before = _newest(client, uid)
    probe_immediately([uid])
    while _newest(client, uid) == before:
        if time.monotonic() > ends:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _newest(client: "redis.Redis", uid: str) -> object:
    return client.lindex(_key(uid), 0)


def _key(uid: str) -> str:
    return keys.RESULTS + uid
