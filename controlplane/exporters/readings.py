"""Readings of exporters, as they are kept in Redis."""

import msgspec


class DeviceReading(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator, as DCGM's exporter says. ``None``: it does not say that."""

    device: str
    """``gpu0``: its accelerator is ``HOST/gpu0``."""
    uuid: str = ""
    used_bytes: int | None = None
    memory_bytes: int | None = None
    utilization_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    xid: int = 0
    """The last error of the driver; 0: there was none."""
    ecc_errors: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    throttled: list[str] = []
    """Why its clocks are lower than they could be, in words; not while it is idle."""


class HostReading(msgspec.Struct, frozen=True, kw_only=True):
    """A host, as the node exporter says."""

    memory_bytes: int
    available_bytes: int
    load_1: float | None = None
    """Mean number of processes that run or wait for a processor, over a minute."""
    processors: int = 0


class ExporterReading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of one exporter."""

    exporter: str
    host: str
    at: float
    """Unix seconds, by the clock of whoever read it."""
    problem: str = ""
    """Why it says nothing, in words; empty: it does."""
    devices: list[DeviceReading] = []
    node: HostReading | None = None
