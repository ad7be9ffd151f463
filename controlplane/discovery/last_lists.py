"""Last list of each source, in Redis, for pages and the API. It may be lost at any moment."""

import time
from collections.abc import Iterable

import msgspec
import redis

from routing.contract.decode_errors import DECODE_ERRORS

KEY = "sy:discovery:lists"
"""Hash: source uid → JSON of a LastList."""


class LastList(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a source, or its want."""

    at: float
    """Unix time, in seconds."""
    took_s: float
    entries: int | None
    """How many replicas it lists; ``None``: it did not answer."""
    left_alone: list[str] = []
    """Names that somebody else owns."""
    refused: dict[str, str] = {}
    """Name → why it could not be registered or changed; the first twenty."""

    @property
    def age_s(self) -> float:
        return max(time.time() - self.at, 0.0)


def store(client: "redis.Redis", uid: str, last: LastList) -> None:
    """Raises redis.RedisError."""
    client.hset(KEY, uid, msgspec.json.encode(last))


def keep_only(client: "redis.Redis", uids: Iterable[str]) -> None:
    """Forgets those of other sources. Raises redis.RedisError."""
    kept = {uid.encode() for uid in uids}
    if gone := set(client.hkeys(KEY)) - kept:
        client.hdel(KEY, *gone)


def read(client: "redis.Redis", uids: list[str]) -> dict[str, LastList]:
    """Of those of which there is one. Raises redis.RedisError."""
    found = {}
    for uid, data in zip(uids, client.hmget(KEY, uids) if uids else [], strict=True):
        try:
            found[uid] = msgspec.json.decode(data or b"", type=LastList)
        except DECODE_ERRORS:  # none yet, or another version's
            continue
    return found
