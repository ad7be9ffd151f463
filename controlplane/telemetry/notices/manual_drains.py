"""Manual drains: replicas taken out at single proxies, over their admin listeners; where and how long.

Also which of these overrides are news. Pure, except that a leader keeps for the next one what it has told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import redis

from controlplane.telemetry import durations
from controlplane.telemetry.frames import DrainedAt
from controlplane.telemetry.merge import Merged
from routing.contract.telemetry import WorkerReport

NOTIFIED_KEY = "sy:live:drained_by_hand"
"""Hash: JSON of proxy, fleet and replica → when that ends, milliseconds by Redis's clock."""
GONE_AFTER_S = 60.0
"""A proxy that was silent for so long has ended, and its overrides with it."""
_NEAR_S = 3.0
"""Reports are a second apart."""
_NAMED = 3

Override = tuple[str, str, str]
"""Proxy, fleet, replica."""


@dataclass(slots=True)
class NotifiedDrain:
    ends_at: float
    """Monotonic seconds."""
    seen_at: float


@dataclass(slots=True)
class NotifiedDrains:
    """The notices published so far."""

    notified: dict[Override, NotifiedDrain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManualDrainNotice:
    override: Override
    began: bool
    text: str


def words(places: Sequence[DrainedAt], everywhere: bool) -> str:
    """``drained by hand at proxy edge/812, for another 52 min``; empty: nowhere."""
    if not places:
        return ""
    if everywhere and len(places) > 1:
        longest = durations.words(max(place.expires_in_s for place in places))
        return f"drained by hand at all {len(places)} proxies, for another {longest} at most"
    named = [f"at proxy {place.proxy}, for another {_left(place.expires_in_s)}" for place in places[:_NAMED]]
    more = f" and at {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"drained by hand {' and '.join(named)}{more}"


def at_worker(report: WorkerReport) -> str:
    """``llm/a, for another 52 min``: what is drained so at a worker's proxy; empty: nothing."""
    drained = [
        f"{one.fleet}/{one.replica}, for another {_left(one.expires_in_s)}" for one in report.drained_by_hand
    ]
    more = f" and {len(drained) - _NAMED} more" if len(drained) > _NAMED else ""
    return "; ".join(drained[:_NAMED]) + more


def notices(state: NotifiedDrains, merged: Merged, now: float) -> list[ManualDrainNotice]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only notices that are :func:`confirm`-ed are not published again.
    """
    reports = [worker.report for worker in merged.workers.values()]
    current = _current(reports)
    proxies = {proxy_of(report) for report in reports}
    found = []
    for override, left_s in sorted(current.items()):
        proxy, _, replica = override
        notified = state.notified.get(override)
        if notified is None:
            text = f"{replica} is drained by hand at proxy {proxy}, for another {_left(left_s)}"
            found.append(ManualDrainNotice(override, True, text))
        else:
            notified.ends_at, notified.seen_at = now + left_s, now
    for override, notified in sorted(state.notified.items(), key=lambda item: item[0]):
        if override in current:
            continue
        proxy, _, replica = override
        if proxy in proxies:
            why = ": its time is over" if now >= notified.ends_at - _NEAR_S else ""
            found.append(
                ManualDrainNotice(
                    override, False, f"{replica} is no longer drained by hand at proxy {proxy}{why}"
                )
            )
        elif now - notified.seen_at >= GONE_AFTER_S:
            text = f"proxy {proxy}, at which {replica} was drained by hand, no longer reports"
            found.append(ManualDrainNotice(override, False, text))
    return found


def confirm(state: NotifiedDrains, item: ManualDrainNotice, now: float) -> None:
    """This piece of news has been written down, or its fleet is gone."""
    if item.began:
        state.notified[item.override] = NotifiedDrain(now, now)
    else:
        state.notified.pop(item.override, None)


def proxy_of(report: WorkerReport) -> str:
    return report.worker.rpartition("/")[0]


def _current(reports: Iterable[WorkerReport]) -> dict[Override, float]:
    found: dict[Override, float] = {}
    for report in reports:
        for one in report.drained_by_hand:
            override = (proxy_of(report), one.fleet, one.replica)
            found[override] = max(found.get(override, 0.0), one.expires_in_s)
    return found


def _left(seconds: float) -> str:
    return durations.words(seconds + 0.5)


def load(client: "redis.Redis", now: float, now_ms: int) -> NotifiedDrains:
    """The notices published by the previous leader. Raises redis.RedisError."""
    stored: Any = client.hgetall(NOTIFIED_KEY)
    notified = {
        msgspec.json.decode(key, type=Override): NotifiedDrain(now + (int(ends_ms) - now_ms) / 1000, now)
        for key, ends_ms in stored.items()
    }
    return NotifiedDrains(notified)


def store(client: "redis.Redis", state: NotifiedDrains, now: float, now_ms: int) -> None:
    """Raises redis.RedisError."""
    ends = {
        msgspec.json.encode(override): now_ms + round((notified.ends_at - now) * 1000)
        for override, notified in state.notified.items()
    }
    pipeline = client.pipeline(transaction=True)
    pipeline.delete(NOTIFIED_KEY)
    if ends:
        mapping: Mapping[Any, Any] = ends
        pipeline.hset(NOTIFIED_KEY, mapping=mapping)
    pipeline.execute()
