"""Pages of exporters (Prometheus text format) → readings. Pure.

Only the few metrics below are looked at. Names: DCGM exporter, ``etc/default-counters.csv`` and NVIDIA's
"DCGM field identifiers"; node exporter, collectors ``meminfo``, ``loadavg`` and ``cpu``. Reasons for lower
clocks: NVML, ``nvmlClocksEventReasons``.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from controlplane.exporters.readings import DeviceReading, HostReading

MIB = 2**20
MOST_SAMPLES = 20_000
MOST_OF_LINE = 8192
"""Characters. A longer line is no sample, and would take long to be taken apart."""
MOST = 2.0**47
"""What is as large is no measurement: from here on DCGM writes what it does not know."""

_WANTED = re.compile(
    r"^(DCGM_FI_[A-Z0-9_]+|node_memory_Mem(?:Total|Available)_bytes|node_load1|node_cpu_seconds_total)\b"
)
_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile("[0-9]{1,4}")

THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Bits that mean that it could do more. Others: it is idle, or somebody set its clocks."""


class NoFigures(ValueError):
    """The page has none of the metrics; the text says so."""


class _Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def read(page: str) -> tuple[list[DeviceReading], HostReading | None]:
    """Devices by number, and the host; raises NoFigures where it has neither."""
    devices: dict[str, dict[str, float]] = {}
    uuids: dict[str, str] = {}
    host: dict[str, float] = {}
    processors: set[str] = set()
    for sample in _samples(page):
        if sample.name.startswith("DCGM_"):
            gpu = sample.labels.get("gpu", "")
            if _NUMBER.fullmatch(gpu) is None or sample.labels.get("GPU_I_ID"):
                continue  # no device, or a slice of one, which is no accelerator of its own here
            devices.setdefault(gpu, {})[sample.name] = sample.value
            uuids[gpu] = sample.labels.get("UUID", "")
        elif sample.name == "node_cpu_seconds_total":
            processors.add(sample.labels.get("cpu", ""))
        else:
            host[sample.name] = sample.value
    found = [_device(gpu, uuids[gpu], devices[gpu]) for gpu in sorted(devices, key=int)]
    node = _host(host, len(processors))
    if not found and node is None:
        raise NoFigures("the page has neither DCGM's metrics nor the node exporter's")
    return found, node


def _samples(page: str) -> Iterator[_Sample]:
    count = 0
    for line in page.splitlines():
        if len(line) > MOST_OF_LINE or _WANTED.match(line) is None:
            continue
        if (found := _SAMPLE.match(line)) is None:
            continue
        count += 1
        if count > MOST_SAMPLES:
            raise NoFigures(f"the page has more than {MOST_SAMPLES} samples of these metrics")
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if abs(value) < MOST:  # false of NaN too
            yield _Sample(found["name"], dict(_LABEL.findall(found["labels"] or "")), value)


def _device(gpu: str, uuid: str, values: dict[str, float]) -> DeviceReading:
    def of(*names: str) -> float | None:
        found = (values.get(f"DCGM_FI_DEV_{name}") for name in names)
        return next((value for value in found if value is not None), None)

    used, free, reserved = of("FB_USED"), of("FB_FREE"), of("FB_RESERVED")
    total = None if used is None or free is None else used + free + (reserved or 0.0)
    reasons = int(of("CLOCKS_EVENT_REASONS", "CLOCK_THROTTLE_REASONS") or 0)
    ecc = of("ECC_DBE_VOL_TOTAL", "ECC_DBE_AGG_TOTAL")
    return DeviceReading(
        device=f"gpu{gpu}",
        uuid=uuid,
        used_bytes=None if used is None else int(used * MIB),
        memory_bytes=None if total is None else int(total * MIB),
        utilization_percent=of("GPU_UTIL"),
        temperature_c=of("GPU_TEMP"),
        power_w=of("POWER_USAGE"),
        xid=int(of("XID_ERRORS") or 0),
        ecc_errors=None if ecc is None else int(ecc),
        throttled=[words for bit, words in THROTTLES.items() if reasons & bit],
    )


def _host(values: dict[str, float], processors: int) -> HostReading | None:
    total, available = values.get("node_memory_MemTotal_bytes"), values.get("node_memory_MemAvailable_bytes")
    if total is None or available is None:
        return None
    return HostReading(
        memory_bytes=int(total),
        available_bytes=int(available),
        load_1=values.get("node_load1"),
        processors=processors,
    )
