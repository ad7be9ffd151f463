"""Redis keys of everything both planes keep there, and the Lua scripts that make a write atomic.

Redis can be flushed at any moment: nothing in it is the only copy. Times are Redis's own
(``TIME``), because clocks of two hosts differ.
"""

INSTALLATION = "sy:installation"
"""Hash: to which installation this Redis belongs (``id``), to which of its databases (``instance``; a copy of
a database has the same id), the ``epoch`` of that one, and when it was last ``heard`` (Redis time, s)."""

INSTANCE_TTL_S = 10
"""Another database with the same id may publish once the one before has not been heard for so long."""

MANIFEST = "sy:manifest"
"""Hash with fields ``epoch``, ``version``, ``installation``, ``body`` (JSON of a Manifest)."""

CHANGES_CHANNEL = "sy:bell"
"""Pub/sub channel. Message: ``*`` for the manifest, else a fleet's name: something newer is stored."""

PREFIXES_CHANNEL = "sy:prefixes"
"""Pub/sub channel. Message: a PrefixDigest (:mod:`routing.contract.prefix_digest`) of one worker, for all
hosts but its own."""

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
    """Hash with fields ``epoch``, ``version``, ``installation``, ``body`` (JSON of a FleetSnapshot), and of a
    large fleet its chunks (:mod:`routing.contract.snapshot_chunks`)."""
    return f"sy:fleet:{name}"


def fleet_acks_key(name: str) -> str:
    """Hash: worker name → JSON of an Acknowledgement of this fleet's snapshot."""
    return f"sy:acks:{name}"


def sticky_key(name: str) -> str:
    """String with an expiry: JSON of fleet, replica's uid and replica's name that keep the response or
    conversation of this id."""
    return f"sy:kept:{name}"


STICKY_IDS = "sy:kept"
"""Sorted set: each id that has a :func:`sticky_key` → Redis time when it was stored."""

MOST_STICKY_IDS = 100_000
"""In Redis, of all proxies together. The oldest are forgotten beyond that."""

KEEP_STICKY_IDS = """
local time = redis.call('TIME')
local now, ttl, most = tonumber(time[1]), tonumber(ARGV[1]), tonumber(ARGV[2])
local before = {}
for at = 3, #ARGV, 2 do
  local key = KEYS[1] .. ':' .. ARGV[at]
  local stored = redis.call('GET', key)
  local ok, known = pcall(cjson.decode, stored or '')
  local new = cjson.decode(ARGV[at + 1])
  if ok and type(known) == 'table' and (known[1] ~= new[1] or known[2] ~= new[2]) then
    before[#before + 1] = ARGV[at]
    before[#before + 1] = stored
  else
    redis.call('SET', key, ARGV[at + 1], 'EX', ttl)
    redis.call('ZADD', KEYS[1], now, ARGV[at])
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ttl)
local over = redis.call('ZCARD', KEYS[1]) - most
if over > 0 then
  for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do
    redis.call('DEL', KEYS[1] .. ':' .. name)
  end
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
end
redis.call('EXPIRE', KEYS[1], ttl)
return before
"""
"""KEYS: STICKY_IDS. ARGV: seconds that an id is kept, most ids, then id and value of each. The first replica
of an id stays. Returns id and value of each that has another one."""

_STANDING = f"""
local function standing(key, id, instance, epoch, succeeded, former)
  local bound = redis.call('HMGET', key, 'id', 'instance', 'epoch', 'heard')
  local now = tonumber(redis.call('TIME')[1])
  if not bound[1] then return 'unbound' end
  if bound[1] ~= id then
    local follows = false
    for each in string.gmatch(succeeded, '[^ ]+') do follows = follows or each == bound[1] end
    if not follows or tonumber(epoch) <= (tonumber(bound[3]) or 0) then return 'foreign' end
  elseif bound[2] ~= instance and bound[2] ~= former then
    if now - (tonumber(bound[4]) or 0) < {INSTANCE_TTL_S} then return 'copy' end
  end
  if bound[1] == id and (tonumber(bound[3]) or 0) > tonumber(epoch) then epoch = bound[3] end
  redis.call('HSET', key, 'id', id, 'instance', instance, 'epoch', epoch, 'heard', now)
  return 'ours'
end
"""
"""Whether an installation may publish to this Redis: ``ours``; ``unbound``: nobody has yet; ``foreign``: it
belongs to another one, which ours does not follow in a later epoch; ``copy``: to another, live database with
the same id. What is ours is renewed; its epoch never becomes an earlier one, or an installation that was
succeeded would follow in its turn."""

HOLD_INSTALLATION = (
    _STANDING
    + """
local found = standing(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6])
if ARGV[5] == 'take' or (found == 'unbound' and ARGV[5] == 'claim') then
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'instance', ARGV[2], 'epoch', ARGV[3],
    'heard', redis.call('TIME')[1])
  return 'ours'
end
return found
"""
)
"""KEYS: INSTALLATION. ARGV: id, instance, epoch, ids that it has succeeded (with spaces between), and
``renew``, ``claim`` (bind a Redis that nobody is bound to) or ``take`` (bind it whatever is there), and the
instance that the caller held before, which is no copy. Returns the standing."""

RELEASE_INSTANCE = """
if redis.call('HGET', KEYS[1], 'instance') == ARGV[1] then redis.call('HSET', KEYS[1], 'heard', 0) end
return 1
"""
"""A conductor ends: a copy of its database need not wait. KEYS: INSTALLATION. ARGV: instance."""

STORE_IF_NEWER = (
    _STANDING
    + """
local found = standing(KEYS[2], ARGV[6], ARGV[7], ARGV[1], ARGV[8])
if found ~= 'ours' then return found end
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '-1') or -1
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1') or -1
local new_epoch, new_version = tonumber(ARGV[1]), tonumber(ARGV[2])
if new_epoch > epoch or (new_epoch == epoch and new_version > version) then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'version', ARGV[2], 'installation', ARGV[6], 'body', ARGV[3])
  for at = 9, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
  redis.call('PUBLISH', ARGV[4], ARGV[5])
  return 1
end
return 0
"""
)
"""Compare-and-set of a manifest or snapshot, and its announcement. KEYS: the hash, INSTALLATION. ARGV: epoch,
version, body, channel, message; of the installation its id, instance and the ids that it has succeeded; then
field and value of each chunk. Returns 1 when stored, 0 when something as new was there, else why Redis is not
ours."""

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
