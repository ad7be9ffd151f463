"""Measured devices and hosts, for frames: what exporters said last, beside what is declared. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.exporters import trouble
from controlplane.exporters.readings import DeviceReading, ExporterReading
from controlplane.telemetry.frames import HostLive, MeasuredLive

OLDEST_S = 60.0
"""An older reading says nothing about now."""


@dataclass(frozen=True, slots=True)
class MeasuredDevices:
    """By accelerator: its device's last reading and when that was, Unix seconds."""

    devices: Mapping[str, tuple[DeviceReading, float]] = field(default_factory=dict)
    hosts: list[HostLive] = field(default_factory=list)
    """By name."""
    defects: Mapping[str, str] = field(default_factory=dict)
    """Accelerators whose device is likely broken, and why."""
    readings: Sequence[ExporterReading] = ()
    """What it was made of."""
    late: frozenset[str] = frozenset()
    """Exporters whose reading is too old."""


NOTHING_MEASURED = MeasuredDevices()


def measured_devices(
    readings: Sequence[ExporterReading], now: float, before: MeasuredDevices = NOTHING_MEASURED
) -> MeasuredDevices:
    """``now``: Unix seconds. ``before``: the last one; of the very same readings devices are not looked at
    again."""
    hosts = [_host(one, max(now - one.at, 0.0)) for one in readings]
    hosts.sort(key=lambda host: (host.name, host.exporter))
    late = frozenset(one.exporter for one in readings if now - one.at > OLDEST_S)
    if readings is before.readings and late == before.late:
        return replace(before, hosts=hosts)
    devices = {
        f"{one.host}/{device.device}": (device, one.at)
        for one in readings
        if one.exporter not in late
        for device in one.devices
    }
    defects = {
        name: trouble.of_device(reading)
        for name, (reading, _) in devices.items()
        if trouble.is_defect(reading)
    }
    return MeasuredDevices(devices, hosts, defects, readings, late)


def _host(one: ExporterReading, age_s: float) -> HostLive:
    late = f"not read for {age_s:.0f} s: does a Celery worker run?" if age_s > OLDEST_S else ""
    node = None if late else one.node
    return HostLive(
        name=one.host,
        exporter=one.exporter,
        age_s=round(age_s, 1),
        problem=one.problem or late,
        devices=len(one.devices),
        memory_bytes=node.memory_bytes if node else None,
        available_bytes=node.available_bytes if node else None,
        load_1=node.load_1 if node else None,
        processors=node.processors if node else 0,
    )


def measured(
    found: MeasuredDevices, name: str, now: float, *, memory_bytes: int, held_bytes: int, leased_bytes: int
) -> MeasuredLive | None:
    """Of one accelerator; ``None``: no exporter says anything of it."""
    if name not in found.devices:
        return None
    reading, at = found.devices[name]
    return MeasuredLive(
        age_s=round(max(now - at, 0.0), 1),
        used_bytes=reading.used_bytes,
        memory_bytes=reading.memory_bytes,
        utilization_percent=reading.utilization_percent,
        temperature_c=reading.temperature_c,
        power_w=reading.power_w,
        trouble=trouble.of_device(reading),
        is_defect=trouble.is_defect(reading),
        memory_warning=trouble.of_memory(
            reading, memory_bytes=memory_bytes, held_bytes=held_bytes, leased_bytes=leased_bytes
        ),
    )
