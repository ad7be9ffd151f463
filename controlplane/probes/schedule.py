"""Probe schedule: due times in Redis, rebuilt from the database whenever they are missing.

All times here are seconds or milliseconds from now; the clock is Redis's own, so it does not matter on
which host a tick or a batch runs. Every function raises redis.RedisError when Redis is away.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, cast

import redis
from msgspec.structs import replace

from controlplane.probes import keys
from routing.contract.load_report import ReportedLoad, encode_report
from routing.contract.redis_keys import LOADS

JITTER = 0.2
TICK_S = 1.0
AHEAD_S = 2 * TICK_S
"""A tick hands out what is due before the tick after the next: one that comes late makes nothing late."""
FASTEST_S = 0.2
"""A result that came late is followed by the next probe this much later, not at once."""
STARTUP_PERIOD_S = 1.0
"""A replica that never passed is asked this often, or as often as its fleet says if that is more often."""
QUEUE_LEASE_MS = 5000
"""How long a claimed batch may wait for a worker before its replicas are due again."""
LEASE_SLACK_S = 5.0
"""What a lease lasts beyond the probe's own limits: for a prober that is late, and for recording the result.
So much later than it need be, replicas of a worker that was killed are due again."""
_OF_A_REPLICA = (keys.DUE, keys.COUNTERS, keys.LAST, LOADS, keys.RESULTS)
MOST_AT_ONCE = 5000
"""Replicas claimed by one tick. A backlog is worked off by the ticks that follow."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What the schedule must know of a replica."""

    period_s: float
    never_passed: bool
    longest_s: float
    """The longest one round of probes may take."""


class Claim(NamedTuple):
    """A replica that a tick handed out. Travels as a JSON list inside a task message."""

    uid: str
    lease: int
    """Its score in the schedule while the claim holds, ms."""
    wait_ms: int
    """Until it is due; a tick claims what is due before the next tick."""


def reconcile(client: "redis.Redis", timings: Mapping[str, Timing], rng: Random) -> bool:
    """Make the schedule hold exactly these replicas; whether anything was changed.

    One that never passed is due at once. Others that are missing (Redis was flushed) are spread over
    their period. A due time further away than the period allows (it was shortened) is brought nearer.
    """
    stored = cast(list[tuple[bytes, float]], client.zrange(keys.DUE, 0, -1, withscores=True))
    now_ms = _now_ms(client)
    left_ms = {uid.decode(): score - now_ms for uid, score in stored}
    return _correct(client, timings, left_ms, [uid for uid in left_ms if uid not in timings], rng)


def reconcile_some(
    client: "redis.Redis", timings: Mapping[str, Timing], gone: Collection[str], rng: Random
) -> bool:
    """The same for these replicas; those ``gone`` are taken out, and all others left as they are."""
    scores = client.zmscore(keys.DUE, list(timings)) if timings else []
    now_ms = _now_ms(client)
    left_ms = {uid: at - now_ms for uid, at in zip(timings, scores, strict=True) if at is not None}
    return _correct(client, timings, left_ms, gone, rng)


def _correct(
    client: "redis.Redis",
    timings: Mapping[str, Timing],
    left_ms: Mapping[str, float],
    gone: Collection[str],
    rng: Random,
) -> bool:
    """``left_ms``: how long until each that is scheduled is due."""
    new: list[str | int] = []
    late: list[str | int] = []
    for uid, timing in timings.items():
        left = left_ms.get(uid)
        if left is None:
            new += (uid, 0 if timing.never_passed else int(rng.uniform(0, timing.period_s) * 1000))
        elif left > (latest_ms := _latest_ms(timing)):
            late += (uid, latest_ms)
    if new or late or gone:
        arguments = [len(new) // 2, *new, len(late) // 2, *late, len(gone), *gone]
        _eval(client, keys.RECONCILE, _OF_A_REPLICA, arguments)
    return bool(new or late or gone)


def size(client: "redis.Redis") -> int:
    """How many replicas are in the schedule."""
    return int(client.zcard(keys.DUE))


def claim(client: "redis.Redis") -> list[Claim]:
    """Take what is due within AHEAD_S. No other tick gets the same until the lease has run out."""
    arguments = (int(AHEAD_S * 1000), QUEUE_LEASE_MS, MOST_AT_ONCE)
    lease, claimed = _eval(client, keys.CLAIM, (keys.DUE,), arguments)
    return [Claim(uid.decode(), int(lease), int(wait_ms)) for uid, wait_ms in claimed]


class ActiveClaim(NamedTuple):
    """A claim whose probes may begin."""

    lease: int
    """To record its result under."""
    wait_s: float
    """Until it is due."""
    late_s: float
    """Since it was due; 0: it is not yet."""
    begin_within_s: float = float("inf")
    """Sent later than that, its lease would run out before its result is there."""


def begin(
    client: "redis.Redis", claims: Sequence[Claim], longest_s: Mapping[str, float]
) -> dict[str, ActiveClaim]:
    """Which of a batch's replicas are still its own, by uid; their leases now last for their probes."""
    arguments: list[str | int] = []
    due_ms = {}
    for each in claims:
        if each.uid in longest_s:
            due_ms[each.uid] = each.lease - QUEUE_LEASE_MS + each.wait_ms
            lease_ms = each.wait_ms + int((longest_s[each.uid] + LEASE_SLACK_S) * 1000)
            arguments += (each.uid, each.lease, lease_ms)
    if not arguments:
        return {}
    now, *begun = _eval(client, keys.BEGIN, (keys.DUE,), arguments)
    return {
        uid.decode(): _active(int(lease), int(now), due_ms[uid.decode()], longest_s[uid.decode()])
        for uid, lease in begun
    }


def _active(lease_ms: int, now_ms: int, due_ms: int, longest_s: float) -> ActiveClaim:
    due_in_s = (due_ms - now_ms) / 1000
    left_s = (lease_ms - now_ms) / 1000 - longest_s
    return ActiveClaim(lease_ms, max(due_in_s, 0.0), max(-due_in_s, 0.0), left_s)


class ResultRecord(NamedTuple):
    """A result, and when to ask again."""

    uid: str
    lease: int
    due_in_s: float
    counters: str
    """JSON; empty: none."""
    result: str
    load: ReportedLoad | None = None


def record_results(client: "redis.Redis", results: Sequence[ResultRecord]) -> int:
    """Record them in one step; how many were. Those whose claim was lost change nothing."""
    arguments: list[str | int] = []
    for one in results:
        load = one.load
        report = "" if load is None else encode_report(replace(load, age_s=0.0)).decode()
        age_ms = 0 if load is None else int(load.age_s * 1000)
        arguments += (one.uid, one.lease, int(one.due_in_s * 1000), one.counters, one.result, report, age_ms)
    if not arguments:
        return 0
    return int(_eval(client, keys.RECORD_RESULTS, _OF_A_REPLICA, arguments))


def make_due(client: "redis.Redis", uids: Sequence[str]) -> None:
    """Have these replicas probed by the next tick."""
    now_ms = _now_ms(client)
    client.zadd(keys.DUE, dict.fromkeys(uids, now_ms))


def period(timing: Timing) -> float:
    """Seconds from one probe to the next, before jitter."""
    return min(timing.period_s, STARTUP_PERIOD_S) if timing.never_passed else timing.period_s


def next_due_s(timing: Timing, took_s: float, rng: Random) -> float:
    """Seconds from the end of a probe that took ``took_s`` to the start of the next, ±20 % of the period."""
    return max(period(timing) * rng.uniform(1 - JITTER, 1 + JITTER) - took_s, FASTEST_S)


def _latest_ms(timing: Timing) -> int:
    busy_ms = int((timing.longest_s + LEASE_SLACK_S + TICK_S) * 1000)
    return max(int(period(timing) * (1 + JITTER) * 1000), busy_ms, QUEUE_LEASE_MS)


def _now_ms(client: "redis.Redis") -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def _eval(client: "redis.Redis", script: str, names: Sequence[str], arguments: Sequence[str | int]) -> Any:
    return client.eval(script, len(names), *names, *arguments)
