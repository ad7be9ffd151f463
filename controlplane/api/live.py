"""The conductor's last frames, read from Redis as they lie there."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import orjson
from django.utils import timezone
from redis.exceptions import RedisError

from controlplane.datastores import redis
from controlplane.datastores.availability import write_refusal
from controlplane.models import Replica
from controlplane.probes import last_results
from controlplane.scaling import signal
from controlplane.scaling.signal import ScalingSignal
from controlplane.telemetry.frames import (
    CLIENT_KEYS_KEY,
    OVERVIEW_KEY,
    AcceleratorLive,
    ClientKeyLive,
    ClientKeysFrame,
    FleetFrame,
    FleetSummary,
    ReplicaLive,
    fleet_key,
)
from controlplane.telemetry.limited_frames import overview_of
from routing.contract.decode_errors import DECODE_ERRORS

FRESH_S = 5.0
"""An older frame says nothing about now."""


class _FrameStamp(msgspec.Struct):
    at: float


def overview(fleets: frozenset[str] | None = None) -> dict[str, Any]:
    """``{"age_s", "frame"}``. ``fleets``: those that it may tell of; None: all. Raises redis.RedisError."""
    data = redis.client().get(OVERVIEW_KEY)
    return _as_it_lies(data if data is None or fleets is None else overview_of(data, fleets))


def fleet(name: str) -> dict[str, Any]:
    """As :func:`overview`, of one fleet."""
    return _as_it_lies(redis.client().get(fleet_key(name)))


def client_keys() -> dict[str, Any]:
    """As :func:`overview`, of all client keys."""
    return _as_it_lies(redis.client().get(CLIENT_KEYS_KEY))


def client_key(pk: int, name: str) -> dict[str, Any]:
    """As :func:`overview`, of one client key. Raises redis.RedisError."""
    data = redis.client().get(CLIENT_KEYS_KEY)
    try:
        frame = msgspec.json.decode(data or b"", type=ClientKeysFrame)
    except DECODE_ERRORS:  # none yet, or another version's
        return {"age_s": None, "frame": None}
    unused = ClientKeyLive(id=pk, name=name)
    seen = next((key for key in frame.keys if key.id == pk), unused)
    body = {"sequence": frame.sequence, "at": frame.at, "key": msgspec.to_builtins(seen)}
    return {"age_s": _age(frame.at), "frame": body}


def _as_it_lies(data: bytes | str | None) -> dict[str, Any]:
    if data is None:
        return {"age_s": None, "frame": None}
    at = msgspec.json.decode(data, type=_FrameStamp).at
    return {"age_s": _age(at), "frame": orjson.Fragment(data)}


class LiveReplica(NamedTuple):
    """One replica, as it was a moment ago."""

    live: ReplicaLive
    everywhere: bool
    """Whether there are proxy workers, and all of them route from the fleet's newest snapshot."""

    @property
    def safe_to_stop(self) -> bool:
        """Nothing is in flight there, and nothing new comes."""
        taken_out = self.live.admin_state != "active"
        return taken_out and self.everywhere and self.live.in_flight == 0


class LiveReplicas(NamedTuple):
    """What was seen of a fleet's replicas within the last FRESH_S seconds."""

    seen: Mapping[str, LiveReplica]
    """By name; empty when nothing was."""
    missing: str = ""
    """Why it cannot be known, in words; empty: it could be read."""


def fresh_replicas(fleet_name: str) -> LiveReplicas:
    """One question to Redis; never raises while it is away."""
    try:
        frame = _fresh_frame(fleet_name)
    except RedisError:
        return LiveReplicas({}, "live data is missing: Redis does not respond")
    if frame is None:
        return LiveReplicas({}, _why_there_is_none())
    everywhere = frame.workers_current == frame.workers > 0
    return LiveReplicas({replica.name: LiveReplica(replica, everywhere) for replica in frame.replicas})


def _why_there_is_none() -> str:
    """Of one fleet. Empty: the conductor works, and just has not seen this fleet yet."""
    try:
        data = redis.client().get(OVERVIEW_KEY)
        if data is not None and _age(msgspec.json.decode(data, type=_FrameStamp).at) <= FRESH_S:
            return ""
        refused = write_refusal()
    except DECODE_ERRORS:
        refused = None
    except RedisError:
        return "live data is missing: Redis does not respond"
    if refused is not None:
        return f"live data is missing: Redis is {refused.words}"
    return f"live data is missing: no conductor has written any in the last {FRESH_S:.0f} s"


def fresh_summary(fleet_name: str) -> FleetSummary | None:
    """What was seen of a fleet within the last FRESH_S seconds; None when nothing was."""
    try:
        frame = _fresh_frame(fleet_name)
    except RedisError:
        return None
    return frame.summary if frame else None


def fresh_scaling(fleet_name: str) -> tuple[ScalingSignal | None, str]:
    """The signal of the last FRESH_S seconds, or the number that was said before with its age, or ``None``
    and why there is none, where that is known."""
    try:
        frame = msgspec.json.decode(redis.client().get(fleet_key(fleet_name)) or b"", type=_Scaled)
    except RedisError:
        return None, "live data is missing: Redis does not respond"
    except DECODE_ERRORS:
        frame = None
    if frame is None or _age(frame.at) > FRESH_S:
        why = _why_there_is_none()
        last = None if frame is None else frame.scaling
        return (None if frame is None or last is None else signal.said_before(last, _age(frame.at), why)), why
    return frame.scaling, ""


class _Scaled(msgspec.Struct):
    """What of a fleet's frame says how many replicas it needs."""

    at: float
    scaling: ScalingSignal | None = None


class _Devices(msgspec.Struct):
    at: float
    accelerators: list[AcceleratorLive] = []


def fresh_accelerators() -> dict[str, AcceleratorLive]:
    """Name → what was seen of it within the last FRESH_S seconds; empty when nothing was."""
    try:
        data = redis.client().get(OVERVIEW_KEY)
        frame = msgspec.json.decode(data, type=_Devices) if data else None
    except (RedisError, *DECODE_ERRORS):
        return {}
    fresh = frame is not None and _age(frame.at) <= FRESH_S
    return {device.name: device for device in frame.accelerators} if frame is not None and fresh else {}


def last_reasons(rows: Iterable[Replica]) -> dict[str, str]:
    """Replica's uid → what its last probe saw, of those that are not ready; empty while Redis is away.

    Rows are written for transitions only, so what keeps a replica from being ready, or how many passes it
    still needs, is in Redis alone.
    """
    since = {
        str(row.uid): health.since
        for row in rows
        if (health := getattr(row, "health", None)) is not None and health.state != "ready"
    }
    try:
        probes = last_results.read_of(redis.client(), list(since))
    except RedisError:
        return {}
    now = timezone.now()
    return {
        uid: probe.answer
        for uid, probe in probes.items()
        # An older one asked the address that it had before.
        if probe.age_s <= (now - since[uid]).total_seconds()
    }


def _fresh_frame(fleet_name: str) -> FleetFrame | None:
    """Raises redis.RedisError."""
    data = redis.client().get(fleet_key(fleet_name))
    try:
        frame = msgspec.json.decode(data, type=FleetFrame) if data else None
    except DECODE_ERRORS:
        return None
    return frame if frame is not None and _age(frame.at) <= FRESH_S else None


def _age(at: float) -> float:
    return round(max(0.0, time.time() - at), 3)
