"""Last probe result of each replica, for pages and the API: age, latency, outcome, and its load report.

Kept in Redis only. Gone after a flush, until the replica has been probed again.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

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


class UnopenedResults(Mapping[str, LastProbe]):
    """By replica uid; each is decoded when somebody asks for it, which of ten thousand few are."""

    def __init__(self, now: tuple[int, int], stored: Mapping[bytes, bytes]) -> None:
        self._now = now
        self._stored = stored

    @cached_property
    def failed(self) -> frozenset[str]:
        """Uids of those that have a last result, and that is a failure, or cannot be read."""
        return frozenset(uid.decode() for uid, text in self._stored.items() if b'"passed":true,' not in text)

    def __getitem__(self, uid: str) -> LastProbe:
        result = decode(self._now, self._stored[uid.encode()])
        if result is None:
            raise KeyError(uid)
        return result

    def __iter__(self) -> Iterator[str]:
        return (uid.decode() for uid in self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def read_unopened(client: "redis.Redis") -> UnopenedResults:
    """All last results. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(keys.LAST)
    return UnopenedResults(*pipeline.execute())


def read_of(client: "redis.Redis", uids: Sequence[str]) -> dict[str, LastProbe]:
    """Last results of these replicas, by uid. Raises redis.RedisError."""
    if not uids:
        return {}
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hmget(keys.LAST, list(uids))
    now, stored = pipeline.execute()
    results = {uid: decode(now, text) for uid, text in zip(uids, stored, strict=True) if text is not None}
    return {uid: result for uid, result in results.items() if result is not None}


def decode(now: tuple[int, int], text: bytes) -> LastProbe | None:
    """``now``: Redis TIME. ``None``: it cannot be read, as another version wrote it."""
    at_ms, _, body = text.partition(b" ")
    try:
        result = msgspec.json.decode(body, type=_Stored)
        age_s = max(now[0] * 1000 + now[1] // 1000 - int(at_ms), 0) / 1000
    except (msgspec.MsgspecError, ValueError):
        return None
    return LastProbe(age_s=age_s, latency_ms=result.ms, passed=result.passed, answer=result.words)


def read_loads(client: "redis.Redis") -> dict[str, ReportedLoad]:
    """All last load reports (ORCA) by replica uid, aged by the clock of Redis. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hgetall(LOADS)
    now, stored = pipeline.execute()
    now_ms = now[0] * 1000 + now[1] // 1000
    found = {uid.decode(): decode_stored(text, now_ms) for uid, text in stored.items()}
    return {uid: report for uid, report in found.items() if report is not None}
