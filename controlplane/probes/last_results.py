"""Last probe result of each replica, for pages and the API: age, latency, outcome, and its load report.

Kept in Redis only. Gone after a flush, until the replica has been probed again.
"""

from collections.abc import Sequence

import msgspec
import redis

from controlplane.probes import keys
from routing.contract.load_report import ReportedLoad, decode_stored
from routing.contract.redis_keys import LOADS


class _Stored(msgspec.Struct, kw_only=True):
    ms: float
    passed: bool
    words: str


class LastProbe(msgspec.Struct, frozen=True, kw_only=True):
    """One result, as a reader sees it."""

    age_s: float
    """Seconds since it was recorded, by the clock of Redis."""
    latency_ms: float
    passed: bool
    answer: str
    """Outcome: ``200 OK``, ``503 Loading model``, ``connection refused`` …"""

    @property
    def words(self) -> str:
        """``200 OK in 3 ms``; a failure without the time that it took."""
        return f"{self.answer} in {self.latency_ms:.0f} ms" if self.passed else self.answer


def encode(*, latency_s: float, passed: bool, answer: str) -> str:
    """A result as it is stored; the script that stores it puts the time before it."""
    return msgspec.json.encode(_Stored(ms=round(latency_s * 1000, 1), passed=passed, words=answer)).decode()


def read(client: "redis.Redis") -> dict[str, LastProbe]:
    """All last results by replica uid. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(keys.LAST)
    now, stored = pipeline.execute()
    return decode(now, stored)


def read_of(client: "redis.Redis", uids: Sequence[str]) -> dict[str, LastProbe]:
    """Last results of these replicas, by uid. Raises redis.RedisError."""
    if not uids:
        return {}
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hmget(keys.LAST, list(uids))
    now, stored = pipeline.execute()
    found = {uid.encode(): text for uid, text in zip(uids, stored, strict=True) if text is not None}
    return decode(now, found)


def decode(now: tuple[int, int], stored: dict[bytes, bytes]) -> dict[str, LastProbe]:
    """``now``: Redis TIME. What cannot be read (another version wrote it) is left out."""
    now_ms = now[0] * 1000 + now[1] // 1000
    results = {}
    for uid, text in stored.items():
        at_ms, _, body = text.partition(b" ")
        try:
            result = msgspec.json.decode(body, type=_Stored)
            age_s = max(now_ms - int(at_ms), 0) / 1000
        except (msgspec.MsgspecError, ValueError):
            continue
        results[uid.decode()] = LastProbe(
            age_s=age_s, latency_ms=result.ms, passed=result.passed, answer=result.words
        )
    return results


def read_loads(client: "redis.Redis") -> dict[str, ReportedLoad]:
    """All last load reports (ORCA) by replica uid, aged by the clock of Redis. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(LOADS)
    now, stored = pipeline.execute()
    now_ms = now[0] * 1000 + now[1] // 1000
    found = {uid.decode(): decode_stored(text, now_ms) for uid, text in stored.items()}
    return {uid: report for uid, report in found.items() if report is not None}
