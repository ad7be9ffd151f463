"""Status of every part, as ``GET /api/v1/system`` answers it."""

from typing import Literal

import msgspec

Level = Literal["calm", "notice", "warn", "bad"]
"""Nothing to do; worth knowing; look at it; something does not work."""

LEVELS: tuple[Level, ...] = ("calm", "notice", "warn", "bad")


class ComponentStatus(msgspec.Struct, kw_only=True):
    """How something is."""

    level: Level
    state: str
    """One word: well, starting, draining, behind, full, short, slow, stuck, away, missing, refused …"""
    words: str
    """One sentence."""
    cure: str = ""
    """What to do; empty where nothing is to be done."""


def other_version(state: str, software: str, ours: str) -> ComponentStatus:
    """Of a process whose version is not that of the web process, ``ours``."""
    return ComponentStatus(
        level="notice",
        state=state,
        words=f"It runs {software}; the web process runs {ours}.",
        cure="Versions one apart work together. Finish the upgrade.",
    )


class SystemComponent(ComponentStatus):
    """One thing that Switchyard needs."""

    name: str
    title: str
    facts: dict[str, str] = {}
    """Name → value with its unit, for a person."""


class ProxyWorkerStatus(ComponentStatus):
    """One worker of one proxy, as its last report says."""

    name: str
    proxy: str
    """``host name/parent's process id``: workers of one proxy share it."""
    site: str
    """Where its proxy says that it is; empty: it does not say."""
    software: str
    pid: int
    table: str
    """``epoch:version`` of its manifest."""
    behind: list[str]
    """Fleets whose newest snapshot it does not route from yet."""
    age_s: float
    uptime_s: float
    cpu_percent: float | None
    """Of one CPU; ``None``: not measured (no conductor)."""
    clients: int
    upstreams: int
    in_flight: int


class ProcessStatus(ComponentStatus):
    """A process of the control plane."""

    name: str
    role: str
    software: str
    age_s: float
    uptime_s: float
    cpu_percent: float | None
    memory_bytes: int | None


class SystemStatus(msgspec.Struct, kw_only=True):
    verdict: ComponentStatus
    table: str | None
    """``epoch:version`` of the newest manifest by the database; ``None``: the database is away."""
    software: str
    parts: list[SystemComponent]
    proxies: list[ProxyWorkerStatus]
    processes: list[ProcessStatus]
    reports_known: bool
    """False: Redis is away, so nothing is known of proxies and processes."""


def worst(levels: list[Level]) -> Level:
    return max(levels, key=LEVELS.index, default="calm")
