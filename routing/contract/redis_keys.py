"""Redis keys of everything both planes keep there, and the Lua scripts that make a write atomic.

Redis can be flushed at any moment: nothing in it is the only copy. Times are Redis's own
(``TIME``), because clocks of two hosts differ.
"""

MANIFEST = "sy:manifest"
"""Hash with fields ``epoch``, ``version``, ``body`` (JSON of a Manifest)."""

CHANGES_CHANNEL = "sy:bell"
"""Pub/sub channel. Message: ``*`` for the manifest, else a fleet's name: something newer is stored."""

WORKERS = "sy:workers"
"""Sorted set: worker name → Redis time of its last report. Live: heard within WORKER_TTL_S."""

REPORTS = "sy:reports"
"""Hash: worker name → JSON of its last WorkerReport."""

WORKER_TTL_S = 5.0

PROXIES = "sy:proxies"
"""Sorted set: name ``host/master pid`` of each proxy that is not draining → Redis time of its last report.
Limits are shared out among those heard within WORKER_TTL_S; the others are removed."""

LOADS = "sy:loads"
"""Hash: replica uid → time of Redis in ms, a space, and JSON of the ReportedLoad that the replica gave
then."""

MANIFEST_ACKS = "sy:acks"
"""Hash: worker name → JSON of an Acknowledgement of the manifest."""


def fleet_key(name: str) -> str:
    """Hash with fields ``epoch``, ``version``, ``body`` (JSON of a FleetSnapshot)."""
    return f"sy:fleet:{name}"


def fleet_acks_key(name: str) -> str:
    """Hash: worker name → JSON of an Acknowledgement of this fleet's snapshot."""
    return f"sy:acks:{name}"


def sticky_key(name: str) -> str:
    """String with an expiry: JSON of fleet, replica's uid and replica's name that keep the response or
    conversation of this id."""
    return f"sy:kept:{name}"


STORE_IF_NEWER = """
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '-1')
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1')
local new_epoch, new_version = tonumber(ARGV[1]), tonumber(ARGV[2])
if new_epoch > epoch or (new_epoch == epoch and new_version > version) then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'version', ARGV[2], 'body', ARGV[3])
  redis.call('PUBLISH', ARGV[4], ARGV[5])
  return 1
end
return 0
"""
"""Compare-and-set of a manifest or snapshot, and its announcement. KEYS: the hash. ARGV: epoch, version,
body, channel, message. Returns 1 when stored, 0 when something as new was there."""

REPORT = """
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] + time[2] / 1000000, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
"""
"""One process's report. KEYS: WORKERS and REPORTS, or others of their kind. ARGV: its name, JSON of the
report."""

REPORT_OF_PROXY = f"""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
if ARGV[4] == '' then
  redis.call('ZADD', KEYS[3], now, ARGV[3])
else
  redis.call('ZREM', KEYS[3], ARGV[3])
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - {WORKER_TTL_S})
return redis.call('ZRANGE', KEYS[3], 0, -1)
"""
"""One worker's report. KEYS: WORKERS, REPORTS, PROXIES. ARGV: worker name, JSON of the report, its proxy's
name, ``draining`` or nothing. Returns the names in PROXIES."""
