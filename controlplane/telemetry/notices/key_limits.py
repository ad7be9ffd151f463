"""Notices of rate limits: a client key reached one, once an episode. Explicit state, ``now`` an argument.

A key at its limit is refused some requests and let in others, second by second. So an episode is over only
when nothing has been refused for OVER_AFTER_S. Which episodes go on is kept in Redis, so that whoever leads
next does not tell them again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import redis

from controlplane.telemetry.db_snapshot import KeyRow
from controlplane.telemetry.key_traffic import KeyNumbers, Limit

EPISODES_KEY = "sy:live:limited"
"""Hash: key id and limit → ms of Redis's clock at which the limit last refused a request."""

OVER_AFTER_S = 300.0
WORDS = {
    "requests_per_minute": ("{} request per minute", "{} requests per minute"),
    "max_concurrency": ("{} request at one time", "{} requests at one time"),
    "tokens_per_minute": ("{} token per minute", "{} tokens per minute"),
}
"""Of one, of several."""


@dataclass(slots=True)
class NotifiedKeyLimits:
    refused_at: dict[Limit, float] = field(default_factory=dict)
    """Published episodes: when their limits last refused a request, monotonic seconds."""


@dataclass(frozen=True, slots=True)
class KeyLimitNotice:
    limit: Limit
    text: str


def notices(
    state: NotifiedKeyLimits, keys: Iterable[KeyRow], numbers: dict[str, KeyNumbers], now: float
) -> list[KeyLimitNotice]:
    """Episodes that have begun since the last call; only those that are :func:`confirm`-ed count as
    published."""
    state.refused_at = {limit: at for limit, at in state.refused_at.items() if now - at < OVER_AFTER_S}
    found = []
    for key in keys:
        seen = numbers.get(str(key.id))
        for name in seen.limited if seen is not None else ():
            limit, value = (str(key.id), name), key.limits.get(name)
            if limit in state.refused_at:
                state.refused_at[limit] = now
            elif value is not None:  # else lifted meanwhile
                found.append(
                    KeyLimitNotice(limit, f"key {key.name} reached its limit of {words(name, value)}")
                )
    return found


def forget(state: NotifiedKeyLimits, changed: Iterable[Limit]) -> None:
    """These limits are others now: reaching them is another episode."""
    for limit in changed:
        state.refused_at.pop(limit, None)


def confirm(state: NotifiedKeyLimits, item: KeyLimitNotice, now: float) -> None:
    """This piece of news has been written down."""
    state.refused_at[item.limit] = now


def words(name: str, value: int) -> str:
    """``"60 requests per minute"``."""
    return WORDS[name][value != 1].format(f"{value:,}")


def store(client: "redis.Redis", state: NotifiedKeyLimits, now: float, now_ms: int) -> None:
    """For the next leader; there is at least one episode. Raises redis.RedisError."""
    at_ms = {limit: now_ms - int((now - at) * 1000) for limit, at in state.refused_at.items()}
    pipeline = client.pipeline(transaction=True)
    pipeline.delete(EPISODES_KEY)
    pipeline.hset(EPISODES_KEY, mapping={" ".join(limit): str(at) for limit, at in at_ms.items()})
    pipeline.expire(EPISODES_KEY, int(OVER_AFTER_S) + 1)
    pipeline.execute()


def load(client: "redis.Redis", now: float, now_ms: int) -> NotifiedKeyLimits:
    """The notices published by the previous leader. Raises redis.RedisError."""
    state = NotifiedKeyLimits()
    stored: Any = client.hgetall(EPISODES_KEY)
    for limit, at_ms in stored.items():
        key, _, name = limit.decode().partition(" ")
        state.refused_at[key, name] = now - (now_ms - int(at_ms)) / 1000
    return state
