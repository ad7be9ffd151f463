"""Initial message of a WebSocket: the charts' history and the last frame.

``{"type": "hello", "history": [Point…], "frame": Frame | null, "age_s": seconds | null, "sparks": {…}}``:
``age_s`` is the frame's age, so that a page opened while nothing is measuring says so at once.
``sparks`` (overview only) holds the last SPARKLINE_POINTS seconds of every fleet in the frame as
``{fleet: {"at": last second, "rps": […], "p99_s": […]}}``.
"""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from controlplane.alerts.live_counts import FiringCount
from controlplane.telemetry import frames
from controlplane.telemetry.limited_frames import overview_of

ALL_FLEETS = "*"
SPARKLINE_POINTS = 120


class _FrameTime(msgspec.Struct):
    """What any frame or point says about when it was."""

    at: float


class _FleetName(msgspec.Struct):
    name: str


class _FleetNames(msgspec.Struct):
    fleets: list[_FleetName]


class Sparkline(msgspec.Struct):
    at: float
    rps: list[float]
    p99_s: list[float | None]


class InitialMessage(msgspec.Struct, tag="hello", tag_field="type"):
    history: msgspec.Raw
    frame: msgspec.Raw
    age_s: float | None
    sparks: dict[str, Sparkline] = {}


async def initial_message(redis: Any, fleet: str | None, fleets: frozenset[str] | None = None) -> str:
    """The message for one fleet's page, or for the overview (None). Raises redis.RedisError.

    ``fleets``: those that the overview may tell of; None: all. Of some there is no common history.
    ``redis`` is a ``redis.asyncio.Redis`` (its published types differ between versions).
    """
    if fleet is not None:
        return _encode(*await _history_and_frame(redis, fleet, frames.fleet_key(fleet)), sparks={})
    history, frame = await _history_and_frame(redis, ALL_FLEETS, frames.OVERVIEW_KEY)
    if fleets is not None:
        history, frame = [], overview_of(frame, fleets) if frame else None
    return _encode(history, frame, sparks=await _sparklines(redis, frame) if frame else {})


async def initial_client_keys_message(redis: Any) -> str:
    """As :func:`initial_message`, for the page of client keys, which has no history."""
    return _encode([], await redis.get(frames.CLIENT_KEYS_KEY), sparks={})


async def _history_and_frame(redis: Any, name: str, frame_key: str) -> tuple[list[bytes], bytes | None]:
    async with redis.pipeline(transaction=True) as pipe:
        pipe.lrange(frames.history_key(name), 0, -1)
        pipe.get(frame_key)
        history, frame = await pipe.execute()
    return history, frame


async def _sparklines(redis: Any, frame: bytes) -> dict[str, Sparkline]:
    names = [fleet.name for fleet in msgspec.json.decode(frame, type=_FleetNames).fleets]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.lrange(frames.history_key(name), -SPARKLINE_POINTS, -1)
        histories = await pipe.execute()
    return {name: _sparkline(history) for name, history in zip(names, histories, strict=True) if history}


def _sparkline(history: Sequence[bytes]) -> Sparkline:
    points = [msgspec.json.decode(entry, type=frames.Point) for entry in history]
    return Sparkline(points[-1].at, [point.rps for point in points], [point.p99_s for point in points])


def _encode(history: Sequence[bytes], frame: bytes | None, *, sparks: dict[str, Sparkline]) -> str:
    """Points and frame are passed on as they lie in Redis, without being read."""
    age_s = max(0.0, time.time() - msgspec.json.decode(frame, type=_FrameTime).at) if frame else None
    message = InitialMessage(
        msgspec.Raw(b"[" + b",".join(history) + b"]"), msgspec.Raw(frame or b"null"), age_s, sparks
    )
    return msgspec.json.encode(message).decode()


def frame_message(frame: str) -> str:
    """One frame, as the conductor wrote it, for the page."""
    return f'{{"type":"frame","frame":{frame}}}'


def alerts_message(counts: FiringCount) -> str:
    """How many alerts fire that are not silenced, as ``GET /api/v1/alerts/counts`` answers."""
    return msgspec.json.encode({"type": "alerts", **msgspec.to_builtins(counts)}).decode()


def silence_message(redis_answers: bool) -> str:
    """While no frame comes: whether that is because Redis, which carries them, does not answer."""
    return msgspec.json.encode({"type": "silence", "redis": redis_answers}).decode()
