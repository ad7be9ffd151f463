"""Memory shortage: what a replica's accelerators lack for its requests at this moment, in words. Pure.

A lease is for every request anew, so memory holds a replica back without making it ineligible: it goes on
with the next request that ends. That is why this stands beside admin state, health and ejection.
"""

from collections.abc import Mapping

from controlplane.telemetry.db_snapshot import AcceleratorPlacement, ReplicaRow
from controlplane.telemetry.frames import WINDOW_S, AcceleratorLive
from routing.contract.accelerators import shown_bytes


def words(row: ReplicaRow, devices: Mapping[str, AcceleratorLive]) -> str:
    """``devices``: by name. Empty: nothing is short, or the replica's requests take no memory."""
    return "; ".join(said for each in row.placed if (said := _short(each, devices[each.accelerator])))


def _short(placed: AcceleratorPlacement, device: AcceleratorLive) -> str:
    if not placed.request_bytes and not placed.request_bytes_per_work:
        return ""
    free = device.usable_bytes - device.held_bytes - (device.leased_bytes or 0)
    if device.leased_bytes and free < max(placed.request_bytes, 1):
        left = f"{shown_bytes(free)} free" if free > 0 else "nothing free"
        takes = f", a request takes {shown_bytes(placed.request_bytes)}" if placed.request_bytes else ""
        return f"waits for memory on {device.name}: {left} of {shown_bytes(device.usable_bytes)}{takes}"
    if device.lease_waits:
        requests = "1 request" if device.lease_waits == 1 else f"{device.lease_waits} requests"
        return f"memory was short on {device.name} for {requests} in the last {WINDOW_S} s"
    return ""
