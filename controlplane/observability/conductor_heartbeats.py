"""Heartbeat of each conductor, for the system page: who leads, how long its ticks take, what is away."""

import msgspec
import redis

from controlplane.observability.heartbeats import Heartbeats
from routing.contract.redis_keys import REPORT

CONDUCTORS = "sy:conductors"
"""Sorted set: conductor name → Redis time of its last heartbeat."""

STATES = "sy:conductors:state"
"""Hash: conductor name → JSON of its ConductorHeartbeat."""

LIVE_S = 5.0
FORGET_S = 300.0
"""A conductor that crashed is shown as gone for this long, unless another has taken its place."""


class ConductorHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a conductor says of itself."""

    name: str
    """``host/pid``."""
    leads: bool
    tick_ms: float = msgspec.field(name="beat_ms")
    """How long its last tick took."""
    away: list[str]
    """What it cannot reach just now."""
    uptime_s: float


class ConductorLive(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat: ConductorHeartbeat
    age_s: float
    """Since that heartbeat; older than LIVE_S: it is gone or stuck."""


def send(client: "redis.Redis", heartbeat: ConductorHeartbeat) -> None:
    """Raises redis.RedisError."""
    client.eval(REPORT, 2, CONDUCTORS, STATES, heartbeat.name, msgspec.json.encode(heartbeat).decode())


def read(client: "redis.Redis") -> list[ConductorLive]:
    """All conductors heard within FORGET_S, the latest heartbeat first. Raises redis.RedisError."""
    found = [
        ConductorLive(heartbeat=msgspec.json.decode(stored.body, type=ConductorHeartbeat), age_s=stored.age_s)
        for stored in Heartbeats(client, CONDUCTORS, STATES)
        if stored.age_s <= FORGET_S and stored.body
    ]
    return found[::-1]


def remove(client: "redis.Redis", name: str) -> None:
    """A conductor that ends says so."""
    client.zrem(CONDUCTORS, name)
    client.hdel(STATES, name)


def forget_old(client: "redis.Redis") -> None:
    """Delete what crashed conductors have left."""
    oldest = client.time()[0] - FORGET_S
    for name in client.zrangebyscore(CONDUCTORS, "-inf", oldest):
        remove(client, name.decode() if isinstance(name, bytes) else str(name))
