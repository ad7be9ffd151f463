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
CLAIMS_KEY = "sy:discovery:claims:"
"""Before a source's uid: hash, replica name → ``AT_MS URL`` of who claimed it while another had it."""
KEPT_S = 7 * 24 * 3600
CLAIM_KEPT_S = 600

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
local holds = expires and tonumber(expires) > now and leaving == '0'
if holds and settings ~= ARGV[3] then
  local url = cjson.decode(settings).url
  if url ~= cjson.decode(ARGV[3]).url then
    local told = redis.call('HGET', KEYS[2], ARGV[1])
    redis.call('HSET', KEYS[2], ARGV[1], string.format('%d %s', now, cjson.decode(ARGV[3]).url))
    redis.call('EXPIRE', KEYS[2], ARGV[7])
    redis.call('PUBLISH', ARGV[5], ARGV[6])
    return {url, expires - now, told and 1 or 0}
  end
end
local renewed = holds and settings == ARGV[3]
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
if before and ARGV[5] ~= '' and (cjson.decode(settings).url or ARGV[5]) ~= ARGV[5] then return 0 end
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


class LeaseHeld(Exception):
    """Another server holds the lease, at another URL."""

    def __init__(self, url: str, left_s: float, *, told: bool) -> None:
        super().__init__(url)
        self.url = url
        """Of who holds it."""
        self.left_s = left_s
        """Until it runs out, if it is not renewed."""
        self.told = told
        """Whether somebody claimed it within CLAIM_KEPT_S before."""


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
        self._claims_key = CLAIMS_KEY + source_uid

    def grant(self, name: str, settings: Mapping[str, object], ttl_s: float) -> bool:
        """Grants or renews one. Whether it was only renewed. Raises LeaseHeld: a lease that holds is not
        taken from the URL that has it, until it runs out or is released."""
        body = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
        arguments: list[str | bytes] = [name, str(round(ttl_s * 1000)), body]
        arguments += [str(KEPT_S), bell.CHANNEL, self._ring, str(CLAIM_KEPT_S)]
        found = self._client.eval(_GRANT, 2, self._key, self._claims_key, *arguments)
        if isinstance(found, list):
            url, left_ms, told = found
            raise LeaseHeld(url.decode(), int(left_ms) / 1000, told=bool(told))
        return bool(found)

    def release(self, name: str, url: str = "") -> bool:
        """Whether it was: with ``url`` only a lease of that one is."""
        arguments = [name, str(KEPT_S), bell.CHANNEL, self._ring, url]
        return bool(self._client.eval(_RELEASE, 1, self._key, *arguments))

    def claims(self, within_s: float) -> dict[str, str]:
        """Name → URL of another server that claimed it, and was refused, within that time."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hgetall(self._claims_key)
        pipeline.time()
        found, (seconds, micros) = pipeline.execute()
        since_ms = 1000 * (seconds + micros / 1e6 - within_s)
        parts = {name.decode(): body.split(b" ", 1) for name, body in found.items()}
        return {name: url.decode() for name, (at_ms, url) in parts.items() if int(at_ms) >= since_ms}

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
