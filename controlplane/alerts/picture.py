"""Picture: what one evaluation of the alert rules sees. A part may be unknown, which is not "all is well"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from controlplane.objectives.burn_rate import FleetObjectives
from controlplane.scaling.signal import ScalingSignal
from controlplane.system.status import ProxyWorkerStatus, SystemComponent
from controlplane.telemetry.frames import Point


class SeenReplica(msgspec.Struct, frozen=True, kw_only=True):
    """Of a replica's part of the fleet frame what the rules ask."""

    name: str
    eligible: bool
    state: str
    why: str
    admin_state: str = "active"
    expected_in_s: float | None = None
    """As :attr:`controlplane.telemetry.frames.ReplicaLive.expected_in_s`."""


class SeenQueue(msgspec.Struct, frozen=True, kw_only=True):
    state: str = ""
    waiting: int = 0
    size: int = 0
    full_per_s: float = 0.0
    late_per_s: float = 0.0


class SeenCold(msgspec.Struct, frozen=True, kw_only=True):
    expected_in_s: float | None = None


class SeenSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    taking: int
    covered: bool = False
    rps: float = 0.0
    error_percent: float = 0.0
    queue: SeenQueue = SeenQueue()
    cold: SeenCold | None = None


class SeenFleet(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet frame, as far as the rules ask: the others of its fields are not decoded."""

    at: float
    summary: SeenSummary
    point: Point
    """What the history has of the last second."""
    replicas: list[SeenReplica] = []
    scaling: ScalingSignal | None = None

    @property
    def name(self) -> str:
        return self.summary.name


class SeenMeasured(msgspec.Struct, frozen=True, kw_only=True):
    trouble: str
    is_defect: bool


class SeenDevice(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    lease_waits: int = 0
    measured: SeenMeasured | None = None


class TroubledSource(NamedTuple):
    """A discovery source that is not followed as it should be."""

    fleet: str
    name: str
    answers: bool
    """Whether it lists something, though too little to be believed."""
    words: str
    """Why, without times."""


@dataclass(frozen=True, slots=True)
class FailingDestination:
    """A destination that has taken nothing for a while though something was to be sent."""

    name: str
    words: str
    """What it answered, or why there was no answer."""


@dataclass(frozen=True, slots=True)
class Picture:
    """``None``: that part is not known at this moment."""

    fleets: Sequence[SeenFleet] | None = None
    devices: Sequence[SeenDevice] | None = None
    parts: Mapping[str, SystemComponent] = field(default_factory=dict)
    """Parts of Switchyard by name, as the system page judges them; those that are unknown are left out."""
    proxies: Sequence[ProxyWorkerStatus] | None = None
    certificates: Mapping[str, float] | None = None
    """Proxy → seconds until its listener's certificate ends."""
    objectives: Sequence[FleetObjectives] | None = None
    sources: Sequence[TroubledSource] | None = None
    """Those that are in trouble."""
    failing: Sequence[FailingDestination] = ()
