"""Leader election: of several conductors (or beats) one leads. It holds a lease in Redis and renews it."""

import secrets

import redis

LEADER_KEY = "sy:conductor:leader"
"""String: the leader's token. Expires LEASE_MS after its last renewal."""

LEASE_MS = 3000
"""A leader that is killed is followed by another within this and one tick of a second."""

_HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class Leadership:
    """One candidate. Every method raises redis.RedisError when Redis is away."""

    def __init__(self, client: "redis.Redis", token: str | None = None, key: str = LEADER_KEY) -> None:
        self._client = client
        self._key = key
        self.token = token or secrets.token_hex(16)

    def hold(self) -> bool:
        """Take or renew the lease; whether we lead for the next LEASE_MS."""
        return bool(self._client.eval(_HOLD, 1, self._key, self.token, str(LEASE_MS)))

    def release(self) -> None:
        """Let another one lead at once, if we did."""
        self._client.eval(_RELEASE, 1, self._key, self.token)
