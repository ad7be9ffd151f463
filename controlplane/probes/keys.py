"""Redis keys of probing, and the Lua scripts that change them. All of it may be lost at any moment.

A replica's score in DUE is when it is to be probed next, in milliseconds of Redis's own clock. Claiming
moves the score forward: it becomes the *lease*, and at the same time the claim's token. Whoever holds a
claim may act only while the score still is its lease, so a replica is never probed twice at a time, and
one whose worker was killed is simply due again when the lease has run out.
"""

DUE = "sy:probe:due"
"""Sorted set: replica uid → ms: due, or leased until."""

COUNTERS = "sy:probe:counters"
"""Hash: replica uid → JSON ``[rises, falls]`` towards the next change of health."""

LAST = "sy:probe:last"
"""Hash: replica uid → JSON of the last result (:mod:`controlplane.probes.last_results`)."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

RECONCILE = (
    _NOW
    + """
local at = 1
for _ = 1, tonumber(ARGV[at]) do
  redis.call('ZADD', KEYS[1], 'NX', now + tonumber(ARGV[at + 2]), ARGV[at + 1])
  at = at + 2
end
at = at + 1
for _ = 1, tonumber(ARGV[at]) do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at + 1])
  local latest = now + tonumber(ARGV[at + 2])
  if score and tonumber(score) > latest then redis.call('ZADD', KEYS[1], 'XX', latest, ARGV[at + 1]) end
  at = at + 2
end
at = at + 1
for _ = 1, tonumber(ARGV[at]) do
  for key = 1, 4 do
    redis.call(key == 1 and 'ZREM' or 'HDEL', KEYS[key], ARGV[at + 1])
  end
  at = at + 1
end
return 1
"""
)
"""KEYS: DUE, COUNTERS, LAST, LOADS. ARGV: number of new replicas, then uid and ms from now of each; number of
replicas due too late, then uid and the latest ms from now; number of deleted ones, then their uids."""

CLAIM = (
    _NOW
    + """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now + tonumber(ARGV[1]), 'WITHSCORES',
                       'LIMIT', 0, tonumber(ARGV[3]))
local lease = now + tonumber(ARGV[2])
local claimed = {}
for index = 1, #due, 2 do
  redis.call('ZADD', KEYS[1], lease, due[index])
  claimed[#claimed + 1] = {due[index], string.format('%d', math.max(tonumber(due[index + 1]) - now, 0))}
end
return {string.format('%d', lease), claimed}
"""
)
"""KEYS: DUE. ARGV: look ahead, length of the lease (both ms, the lease the longer), most to claim.
Returns the lease and, for each claimed replica, its uid and the ms until it is due."""

BEGIN = (
    _NOW
    + """
local begun = {string.format('%d', now)}
for index = 1, #ARGV, 3 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[index])
  if score and tonumber(score) == tonumber(ARGV[index + 1]) then
    local lease = now + tonumber(ARGV[index + 2])
    redis.call('ZADD', KEYS[1], lease, ARGV[index])
    begun[#begun + 1] = {ARGV[index], string.format('%d', lease)}
  end
end
return begun
"""
)
"""A batch begins: leases still held are made as long as the probes may take. KEYS: DUE. ARGV: uid, lease,
ms from now, of each. Returns now in ms, then uid and new lease of each replica that is still ours."""

RECORD_RESULT = (
    _NOW
    + """
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
redis.call('HSET', KEYS[3], ARGV[1], string.format('%d', now) .. ' ' .. ARGV[5])
if ARGV[6] == '' then
  redis.call('HDEL', KEYS[4], ARGV[1])
else
  redis.call('HSET', KEYS[4], ARGV[1], string.format('%d', now - tonumber(ARGV[7])) .. ' ' .. ARGV[6])
end
return 1
"""
)
"""A result goes on record. KEYS: DUE, COUNTERS, LAST, LOADS. ARGV: uid, lease, ms until due again, counters,
last result, load report (empty: none), its age in ms. Returns 0, and changes
nothing, when the claim is no longer ours."""
