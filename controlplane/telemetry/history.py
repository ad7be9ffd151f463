"""History (time series): lists of points in Redis, one a second for 15 min and one each 10 s for 24 h."""

import msgspec
import redis

from controlplane.telemetry.frames import WINDOW_S, Point, coarse_history_key, history_key
from routing.contract.decode_errors import DECODE_ERRORS

ALL = "*"
"""History of all fleets together."""

FINE_POINTS = 900
COARSE_POINTS = 8640
COARSE_S = 10
assert COARSE_S == WINDOW_S, "a coarse point's percentiles are those of one whole window"


def append(pipeline: "redis.client.Pipeline", name: str, point: Point, coarse: Point | None) -> None:
    """Queue one second's point, and the point of the last 10 s when it is time for one.

    The lists go by themselves when nobody has appended for as long as they reach back.
    """
    _append(pipeline, history_key(name), point, FINE_POINTS, FINE_POINTS)
    if coarse is not None:
        _append(pipeline, coarse_history_key(name), coarse, COARSE_POINTS, COARSE_POINTS * COARSE_S)


def _append(pipeline: "redis.client.Pipeline", key: str, point: Point, length: int, lifetime_s: int) -> None:
    pipeline.rpush(key, msgspec.json.encode(point))
    pipeline.ltrim(key, -length, -1)
    pipeline.expire(key, lifetime_s)


def coarsen(points: list[Point]) -> Point:
    """The points of the last 10 s as one: rates (float) and counts (int) averaged.

    Percentiles are the last point's: its window is just these 10 s, merged, not averaged. They are the fields
    that may be ``None``. Raises IndexError without points.
    """
    last, count = points[-1], len(points)
    means: dict[str, float] = {}
    for field in msgspec.structs.fields(Point):
        if field.type in (int, float) and field.name != "at":
            mean = sum(getattr(point, field.name) for point in points) / count
            means[field.name] = round(mean) if field.type is int else mean
    reasons = {reason for point in points for reason in point.error_reasons}
    last = msgspec.structs.replace(
        last,
        error_reasons={
            reason: sum(point.error_reasons.get(reason, 0.0) for point in points) / count
            for reason in sorted(reasons)
        },
    )
    return msgspec.structs.replace(last, **means)


def read(client: "redis.Redis", name: str = ALL, *, coarse: bool = False) -> list[Point]:
    """A fleet's points, oldest first; empty when there are none. Raises redis.RedisError."""
    return _decode(client.lrange(_key(name, coarse), 0, -1))


def _key(name: str, coarse: bool) -> str:
    return coarse_history_key(name) if coarse else history_key(name)


def _decode(stored: list[bytes] | list[bytes | str]) -> list[Point]:
    points = []
    for text in stored:
        try:
            points.append(msgspec.json.decode(text, type=Point))
        except DECODE_ERRORS:  # another version wrote it
            continue
    return points
