"""Minute history: in Redis, a list of rows for each fleet, replica and client key, one a minute for 24 h.

Memory is bounded: all replicas and keys together keep MOST_BYTES. Whoever has been idle for 24 h is dropped,
the idlest go first where there are more than MOST_SUBJECTS. Where the minutes of those that are left would
not fit, they have rows of five minutes, and where those do not either, each keeps its newest ones.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import redis

from controlplane.telemetry.history_series import decoded
from controlplane.telemetry.measures import HistoryRow, HistorySubject
from controlplane.telemetry.minute_collector import LONG_S, MINUTE_S

REACH_S = 86_400
ROWS = REACH_S // MINUTE_S
MOST_BYTES = 384 * 2**20
USUAL_BYTES = 1000.0
"""Of a row, until some were seen."""
MOST_SUBJECTS = 20_000
AT_ONCE = 1000
SUBJECTS = "sy:history:60s:subjects"
"""Redis sorted set: replicas and keys that have rows, by when the last was added, Unix seconds."""


def minute_key(subject: HistorySubject) -> str:
    """Redis list, oldest first: HistoryRow as JSON."""
    return f"sy:history:60s:{subject}"


class MinuteHistory:
    """Writes the rows. Of the conductor that leads; used by one thread."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        self._most = ROWS
        """Rows that each replica and key may have."""
        self.row_s = MINUTE_S
        """How long theirs are."""
        self._row_bytes = USUAL_BYTES
        """Of their rows lately, on average."""
        self._pruned_at = 0.0

    def append(self, pipeline: "redis.client.Pipeline", rows: Mapping[HistorySubject, HistoryRow]) -> None:
        """Queue rows of minutes that have ended."""
        active: dict[str, float] = {}
        for subject, row in rows.items():
            key, is_fleet = minute_key(subject), subject.startswith("fleet:")
            body = msgspec.json.encode(row)
            pipeline.rpush(key, body)
            pipeline.ltrim(key, -(ROWS if is_fleet else self._most), -1)
            pipeline.expire(key, REACH_S)
            if not is_fleet:
                active[subject] = row.at
                self._row_bytes += (len(body) - self._row_bytes) / 1000
        if active:
            pipeline.zadd(SUBJECTS, active)

    def prune(self, at: float) -> None:
        """Drop what is too old or too much; once a minute. ``at``: Unix seconds. Raises redis.RedisError."""
        if at - self._pruned_at < MINUTE_S:
            return
        self._pruned_at = at
        client = self._client
        idle = client.zrangebyscore(SUBJECTS, "-inf", at - REACH_S, start=0, num=AT_ONCE)
        over = client.zcard(SUBJECTS) - len(idle) - MOST_SUBJECTS
        if over > 0:
            idle = client.zrange(SUBJECTS, 0, min(len(idle) + over, AT_ONCE) - 1)
        if idle:
            names = [_text(each) for each in idle]
            client.delete(*map(minute_key, names))
            client.zrem(SUBJECTS, *names)
        fitting = MOST_BYTES / self._row_bytes / max(client.zcard(SUBJECTS), 1)
        if fitting < ROWS:
            self.row_s = LONG_S
        elif fitting > 1.2 * ROWS:
            self.row_s = MINUTE_S
        most = min(ROWS, max(int(fitting), 1))
        if most < 0.9 * self._most:
            self._trim_all(most)
        self._most = most

    def _trim_all(self, most: int) -> None:
        subjects = [_text(each) for each in self._client.zrange(SUBJECTS, 0, -1)]
        for at in range(0, len(subjects), AT_ONCE):
            pipeline = self._client.pipeline(transaction=False)
            for subject in subjects[at : at + AT_ONCE]:
                pipeline.ltrim(minute_key(subject), -most, -1)
            pipeline.execute()


def read(client: "redis.Redis", subject: HistorySubject, since: float = 0.0) -> list[HistoryRow]:
    """A subject's rows from ``since`` on, oldest first. Raises redis.RedisError."""
    return decoded(client.lrange(minute_key(subject), 0, -1), since)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
