"""Frame publisher: frames into Redis, for pages that open later, and as messages for open pages."""

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import redis

from controlplane.telemetry import history
from controlplane.telemetry.frame_builder import Frames
from controlplane.telemetry.frames import (
    CLIENT_KEYS_GROUP,
    CLIENT_KEYS_KEY,
    OVERVIEW_GROUP,
    OVERVIEW_KEY,
    Point,
    coarse_history_key,
    fleet_group,
    fleet_key,
    history_key,
)
from controlplane.telemetry.measures import of_fleet
from controlplane.telemetry.minute_history import minute_key
from routing.contract.decode_errors import DECODE_ERRORS

KEPT_S = 3600
"""Without a conductor its last frames stay this long: shown as old, with their age."""


@dataclass(slots=True)
class FramePublisherState:
    """What must be remembered from one tick to the next."""

    recent: dict[str, list[Point]] = field(default_factory=dict)
    """Points of each history since its last coarse one."""
    names: set[str] = field(default_factory=set)
    """Fleets of the last frames."""


def store(
    pipeline: "redis.client.Pipeline", state: FramePublisherState, frames: Frames
) -> list[tuple[str, str]]:
    """Queue everything; returns (channel group, message) for the open pages."""
    overview = msgspec.json.encode(frames.overview).decode()
    keys = msgspec.json.encode(frames.client_keys).decode()
    messages = [(OVERVIEW_GROUP, overview), (CLIENT_KEYS_GROUP, keys)]
    pipeline.set(OVERVIEW_KEY, overview, ex=KEPT_S)
    pipeline.set(CLIENT_KEYS_KEY, keys, ex=KEPT_S)
    _append(pipeline, state, history.ALL, frames.overview.total)
    for name, frame in frames.fleets.items():
        body = msgspec.json.encode(frame).decode()
        messages.append((fleet_group(name), body))
        pipeline.set(fleet_key(name), body, ex=KEPT_S)
        _append(pipeline, state, name, frame.point)
    for name in state.names - frames.fleets.keys():
        pipeline.delete(fleet_key(name), history_key(name), coarse_history_key(name))
        pipeline.delete(minute_key(of_fleet(name)))
        state.recent.pop(name, None)
    state.names = set(frames.fleets)
    return messages


class _Numbered(msgspec.Struct):
    sequence: int


def last_sequence(client: "redis.Redis") -> int:
    """Number of the last overview frame, for a new leader to go on from. Raises redis.RedisError.

    After a flush: the time of day in seconds, which no leader that sent a frame a second has reached.
    """
    body = client.get(OVERVIEW_KEY)
    try:
        return msgspec.json.decode(body or b"", type=_Numbered).sequence
    except DECODE_ERRORS:
        return int(time.time())


class _Desired(msgspec.Struct):
    name: str
    desired_replicas: int | None = None
    desired_age_s: float = 0.0


class _Overview(msgspec.Struct):
    at: float
    fleets: list[_Desired]


class SaidBefore(NamedTuple):
    """Of a scaling signal."""

    desired: int
    age_s: float


def last_desired(client: "redis.Redis") -> dict[str, SaidBefore]:
    """Fleet → replicas that it needed by the last overview frame. Raises redis.RedisError."""
    try:
        overview = msgspec.json.decode(client.get(OVERVIEW_KEY) or b"", type=_Overview)
    except DECODE_ERRORS:
        return {}
    age_s = max(time.time() - overview.at, 0.0)
    return {
        one.name: SaidBefore(one.desired_replicas, age_s + one.desired_age_s)
        for one in overview.fleets
        if one.desired_replicas is not None
    }


def _append(pipeline: "redis.client.Pipeline", state: FramePublisherState, name: str, point: Point) -> None:
    recent = state.recent.setdefault(name, [])
    recent.append(point)
    coarse = None
    if len(recent) >= history.COARSE_S:
        coarse = history.coarsen(recent)
        recent.clear()
    history.append(pipeline, name, point, coarse)
