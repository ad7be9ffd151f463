"""Published objectives: how they stand, in Redis for pages and the API."""

from collections.abc import Sequence

import msgspec
import redis

from controlplane.objectives.burn_rate import FleetObjectives
from routing.contract.decode_errors import DECODE_ERRORS

LASTS_MS = 60_000


def objectives_key(fleet: str) -> str:
    """Redis string: ObjectivesLive as JSON; gone while nobody counts."""
    return f"sy:live:objectives:{fleet}"


class ObjectiveLive(msgspec.Struct, kw_only=True):
    """One objective of a fleet."""

    kind: str
    """``success``, ``latency`` or ``first_token``."""
    words: str
    target_percent: float
    within_s: float | None
    window_days: float
    requests: int
    """That count for it, in its window."""
    bad: int
    attained_percent: float | None
    """``None``: too few requests to tell."""
    budget_left_percent: float | None
    """Of the error budget; negative: overdrawn. ``None``: too few requests to tell."""
    burn: dict[str, float | None]
    """Window → how fast the budget burns: 1 uses it up in just the objective's window."""
    burning: str | None
    """``outage``, ``fast``, ``slow`` or ``lasting``; ``None``: not too fast."""
    untold: str = ""
    """Why it cannot be told how it stands, in words."""


class ObjectivesLive(msgspec.Struct, kw_only=True):
    at: float
    """Unix seconds."""
    objectives: list[ObjectiveLive]


def publish(client: "redis.Redis", found: Sequence[FleetObjectives], now: float) -> None:
    """Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    for one in found:
        body = ObjectivesLive(
            at=now,
            objectives=[
                ObjectiveLive(
                    kind=each.target.kind,
                    words=each.target.words,
                    target_percent=100 * each.target.target,
                    within_s=each.target.within_s,
                    window_days=each.target.window_s / 86_400,
                    requests=each.whole.total,
                    bad=each.whole.bad,
                    attained_percent=_percent(each.attained),
                    budget_left_percent=_percent(each.budget_left),
                    burn={name: _rounded(rate) for name, rate in each.burn.items()},
                    burning=each.burning.name if each.burning is not None else None,
                    untold=each.untold,
                )
                for each in one.objectives
            ],
        )
        pipeline.set(objectives_key(one.fleet), msgspec.json.encode(body), px=LASTS_MS)
    if found:
        pipeline.execute()


def read(client: "redis.Redis", fleet: str) -> ObjectivesLive | None:
    """``None``: nobody counts now. Raises redis.RedisError."""
    try:
        return msgspec.json.decode(client.get(objectives_key(fleet)) or b"", type=ObjectivesLive)
    except DECODE_ERRORS:
        return None


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
