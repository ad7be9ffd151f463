"""Guess buckets: token buckets in Redis, shared by all processes; in this process alone while Redis is away.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm, ITU-T I.371
annex A): a token taken moves it one interval on, a token given back moves it back. A key expires when its
bucket is full, so nothing is left of those who guess no more.
"""

import threading
import time
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from redis.exceptions import RedisError

from controlplane.datastores import redis

KEY = "sy:guess:{name}"
MOST_LOCAL = 20_000
"""Buckets that are kept here while Redis is away; beyond that those closest to full are forgotten."""


class Bucket(NamedTuple):
    name: str
    size: int
    """Tokens that it holds when full."""
    interval_s: float
    """Seconds in which it gains one."""


class Taken(NamedTuple):
    """What :func:`take` has done: a token out of each bucket, or nothing, because one is empty."""

    buckets: tuple[Bucket, ...]
    empty: Bucket | None = None
    wait_s: float = 0.0
    """Until ``empty`` has a token."""
    here: bool = False
    """Whether they were taken in this process alone."""


_TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local empty, wait, full_at = 0, 0, {}
for i, key in ipairs(KEYS) do
  local size, interval = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local at = math.max(tonumber(redis.call('GET', key) or '0'), now) + interval
  local missing = at - now - size * interval
  if missing > 0.000001 and missing > wait then empty, wait = i, missing end
  full_at[i] = at
end
if empty == 0 then
  for i, key in ipairs(KEYS) do
    redis.call('SET', key, string.format('%.6f', full_at[i]), 'PX', math.ceil((full_at[i] - now) * 1000))
  end
end
return {empty, tostring(wait)}
"""
_GIVE_BACK = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
for i, key in ipairs(KEYS) do
  local at = tonumber(redis.call('GET', key) or '0') - tonumber(ARGV[2 * i])
  if at > now then
    redis.call('SET', key, string.format('%.6f', at), 'PX', math.ceil((at - now) * 1000))
  else
    redis.call('DEL', key)
  end
end
"""


def take(buckets: Sequence[Bucket]) -> Taken:
    """A token out of each, or none at all."""
    wanted = tuple(buckets)
    try:
        empty, wait_s = _run(_TAKE, wanted)
    except RedisError:
        return _local.take(wanted)
    return Taken(wanted) if empty == 0 else Taken((), wanted[empty - 1], float(wait_s))


def give_back(taken: Taken) -> None:
    """What was taken was no guess. Nothing happens where nothing was taken."""
    if not taken.buckets:
        return
    if taken.here:
        _local.give_back(taken.buckets)
        return
    try:
        _run(_GIVE_BACK, taken.buckets)
    except RedisError:
        return  # it is gone with Redis, or comes back by itself


def _run(script: str, buckets: Sequence[Bucket]) -> tuple[int, bytes]:
    keys = [KEY.format(name=bucket.name) for bucket in buckets]
    sizes = [text for bucket in buckets for text in (str(bucket.size), str(bucket.interval_s))]
    answer = redis.client().eval(script, len(keys), *keys, *sizes)
    return tuple(answer or (0, b"0"))


class _LocalBuckets:
    """The same without Redis. Safe in threads."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, buckets: tuple[Bucket, ...]) -> Taken:
        now = time.monotonic()
        with self._lock:
            after = {
                each.name: max(self._full_at.get(each.name, 0.0), now) + each.interval_s for each in buckets
            }
            missing = [(after[each.name] - now - each.size * each.interval_s, each) for each in buckets]
            wait_s, empty = max(missing, key=lambda pair: pair[0])
            if wait_s > 1e-6:
                return Taken((), empty, wait_s)
            self._make_room(now)
            self._full_at.update(after)
        return Taken(buckets, here=True)

    def give_back(self, buckets: tuple[Bucket, ...]) -> None:
        with self._lock:
            for each in buckets:
                if each.name in self._full_at:
                    self._full_at[each.name] -= each.interval_s

    def _make_room(self, now: float) -> None:
        if len(self._full_at) < MOST_LOCAL:
            return
        kept = sorted((at, name) for name, at in self._full_at.items() if at > now)[-MOST_LOCAL // 2 :]
        self._full_at = {name: at for at, name in kept}


_local = _LocalBuckets()


def wait_words(wait_s: float) -> str:
    """For people: ``40 s`` or ``2 minutes``."""
    seconds = max(1, ceil(wait_s))
    return f"{seconds} s" if seconds < 120 else f"{ceil(seconds / 60)} minutes"
