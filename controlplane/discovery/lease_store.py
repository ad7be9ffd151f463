"""Store of TTL leases, in Redis, by Redis's clock. All of it may be lost at any moment.

A lease that has run out or was released stays until its replica is gone. So one that is missing here, while
its replica is there, was lost, and counts as just granted (:meth:`LeaseStore.regrant`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson
import redis

from controlplane.discovery import bell

KEY = "sy:discovery:leases:"
"""Before a source's uid: hash, replica name → ``EXPIRES_MS TTL_MS LEAVING SETTINGS``."""
KEPT_S = 7 * 24 * 3600

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_GRANT = (
    _NOW
    + """
local before = redis.call('HGET', KEYS[1], ARGV[1])
local expires, leaving, settings
if before then expires, leaving, settings = string.match(before, '^(%d+) %d+ (%d) (.*)$') end
local renewed = expires and tonumber(expires) > now and leaving == '0' and settings == ARGV[3]
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %d 0 %s', now + ARGV[2], ARGV[2], ARGV[3]))
redis.call('EXPIRE', KEYS[1], ARGV[4])
if not renewed then redis.call('PUBLISH', ARGV[5], ARGV[6]) end
return renewed and 1 or 0
"""
)
_RELEASE = (
    _NOW
    + """
local before = redis.call('HGET', KEYS[1], ARGV[1])
local settings = before and string.match(before, '^%d+ %d+ %d (.*)$') or '{}'
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d 0 1 %s', now, settings))
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
"""
)
_REGRANT = (
    _NOW
    + """
for at = 2, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[at], string.format('%d %d 0 %s', now + ARGV[1], ARGV[1], ARGV[at + 1]))
end
return 1
"""
)


class StoredLease(NamedTuple):
    expires_at: float
    """Of Redis's clock, in seconds."""
    ttl_s: float
    leaving: bool
    """Released: its replica is to go."""
    settings: Mapping[str, object]
    """Of the replica, as it registered itself, checked."""


class LeaseStore:
    """Leases of one source. Every method raises redis.RedisError when Redis is away."""

    def __init__(self, client: "redis.Redis", source_uid: str) -> None:
        self._client = client
        self._ring = bell.message("changed", source_uid)
        self._key = KEY + source_uid

    def grant(self, name: str, settings: Mapping[str, object], ttl_s: float) -> bool:
        """Grants or renews one. Whether it was only renewed."""
        body = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
        arguments: list[str | bytes] = [
            name,
            str(round(ttl_s * 1000)),
            body,
            str(KEPT_S),
            bell.CHANNEL,
            self._ring,
        ]
        return bool(self._client.eval(_GRANT, 1, self._key, *arguments))

    def release(self, name: str) -> None:
        self._client.eval(_RELEASE, 1, self._key, name, str(KEPT_S), bell.CHANNEL, self._ring)

    def regrant(self, lost: Mapping[str, Mapping[str, object]], ttl_s: float) -> None:
        """Replicas without a lease, with their settings: each gets one, as if it had just registered."""
        arguments: list[str | bytes] = [str(round(ttl_s * 1000))]
        for name, settings in lost.items():
            arguments += [name, orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)]
        if lost:
            self._client.eval(_REGRANT, 1, self._key, *arguments)

    def forget(self, names: Iterable[str]) -> None:
        if names := list(names):
            self._client.hdel(self._key, *names)

    def read(self, *names: str) -> tuple[dict[str, StoredLease], float]:
        """All, or those of these names; and Redis's clock, in seconds."""
        pipeline = self._client.pipeline(transaction=False)
        if names:
            pipeline.hmget(self._key, *names)
        else:
            pipeline.hgetall(self._key)
        pipeline.time()
        found, (seconds, micros) = pipeline.execute()
        stored = dict(zip(names, found, strict=True)) if names else found
        leases = {
            name.decode() if isinstance(name, bytes) else name: _lease(body)
            for name, body in stored.items()
            if body is not None
        }
        return leases, seconds + micros / 1e6


def _lease(body: bytes) -> StoredLease:
    expires, ttl, leaving, settings = body.split(b" ", 3)
    return StoredLease(int(expires) / 1000, int(ttl) / 1000, leaving == b"1", orjson.loads(settings))
