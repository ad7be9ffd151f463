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

RESULTS = "sy:probe:results:"
"""Before a replica's uid: list of its last results, the newest first, each as in LAST."""

MOST_RESULTS = 50
"""Kept of each replica."""

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
  redis.call('DEL', KEYS[5] .. ARGV[at + 1])
  at = at + 1
end
return 1
"""
)
"""KEYS: DUE, COUNTERS, LAST, LOADS, RESULTS. ARGV: number of new replicas, then uid and ms from now of each;
number of replicas due too late, then uid and the latest ms from now; number of deleted ones, then their
uids."""

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

RECORD_RESULTS = (
    _NOW
    + """
local recorded = 0
for at = 1, #ARGV, 7 do
  local uid = ARGV[at]
  local score = redis.call('ZSCORE', KEYS[1], uid)
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[at + 2]), uid)
    if ARGV[at + 3] ~= '' then redis.call('HSET', KEYS[2], uid, ARGV[at + 3])
    else redis.call('HDEL', KEYS[2], uid) end
    local result = string.format('%d', now) .. ' ' .. ARGV[at + 4]
    redis.call('HSET', KEYS[3], uid, result)
    redis.call('LPUSH', KEYS[5] .. uid, result)
    redis.call('LTRIM', KEYS[5] .. uid, 0, """
    + str(MOST_RESULTS - 1)
    + """)
    if ARGV[at + 5] == '' then redis.call('HDEL', KEYS[4], uid)
    else
      local read_at = string.format('%d', now - tonumber(ARGV[at + 6]))
      redis.call('HSET', KEYS[4], uid, read_at .. ' ' .. ARGV[at + 5])
    end
    recorded = recorded + 1
  end
end
return recorded
"""
)
"""Results go on record. KEYS: DUE, COUNTERS, LAST, LOADS, RESULTS. ARGV, of each: uid, lease, ms until due
again, counters (empty: none, all begin again), last result, load report (empty: none), its age in ms. Returns
how many were recorded; of those whose claim is no longer ours nothing changes."""
