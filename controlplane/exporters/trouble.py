"""What is wrong with a device, in words: from its reading, and against what is declared of it. Pure.

XID errors: NVIDIA's "XID Errors". Those of applications (memory faults of a kernel, say) are named, but do
not make a device a broken one.
"""

from controlplane.exporters.readings import DeviceReading
from routing.contract.accelerators import shown_bytes

DEVICE_XIDS = {
    48: "double-bit ECC error",
    62: "internal microcontroller halt",
    63: "memory row remapped",
    64: "memory row remapping failed",
    74: "NVLink error",
    79: "fell off the bus",
    92: "many single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    119: "GSP does not respond",
    120: "GSP error",
    140: "unrecovered ECC error",
}
PARTS_AT = 0.10
"""Measured and declared memory part where they differ by more than this share of the device's."""


def of_device(reading: DeviceReading) -> str:
    """Errors and lower clocks; empty: nothing."""
    found = []
    if reading.xid:
        words = DEVICE_XIDS.get(reading.xid, "see the driver's log")
        found.append(f"XID {reading.xid}: {words}")
    if reading.ecc_errors:
        found.append(f"{reading.ecc_errors} uncorrectable memory error{'s' * (reading.ecc_errors != 1)}")
    if reading.throttled:
        found.append(f"slowed down: {', '.join(reading.throttled)}")
    return "; ".join(found)


def is_defect(reading: DeviceReading) -> bool:
    """Whether the device itself is likely broken."""
    return reading.xid in DEVICE_XIDS or bool(reading.ecc_errors)


def of_memory(reading: DeviceReading, *, memory_bytes: int, held_bytes: int, leased_bytes: int) -> str:
    """Where real memory parts from what is declared; empty: it does not.

    ``memory_bytes``: of the accelerator, as registered. ``held_bytes``: by replicas all the time.
    ``leased_bytes``: by requests in flight.
    """
    most = PARTS_AT * memory_bytes
    if reading.memory_bytes is not None and memory_bytes > reading.memory_bytes * 1.02:
        has, registered = shown_bytes(reading.memory_bytes), shown_bytes(memory_bytes)
        return f"has {has}, {registered} are registered: correct that"
    if reading.used_bytes is None:
        return ""
    declared, used = held_bytes + leased_bytes, shown_bytes(reading.used_bytes)
    if reading.used_bytes > declared + most:
        return (
            f"uses {used}, of which {shown_bytes(declared)} are declared: requests may find no memory; set "
            "memory_bytes of its replicas, or see who else is there"
        )
    if held_bytes and reading.used_bytes < held_bytes - most:
        return (
            f"uses {used}, and replicas say that they hold {shown_bytes(held_bytes)} all the time: requests "
            "could have more"
        )
    return ""
