"""Accelerator metrics (device memory), over all workers: rows of ``/status``, families of ``/metrics``."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from routing.contract.table import AcceleratorSpec
from routing.contract.telemetry import WorkerReport
from routing.master.admin.aggregate import RetiredCounters
from routing.master.admin.exposition import Exposition, LabelPairs


class AcceleratorStatus(NamedTuple):
    """One device of the table."""

    name: str
    memory_bytes: int
    leasable_bytes: int
    """The most that requests through this proxy can lease at one time."""
    leased_bytes: int
    waits: int


def accelerator_statuses(
    devices: Iterable[AcceleratorSpec], totals: RetiredCounters, reports: Iterable[WorkerReport]
) -> list[AcceleratorStatus]:
    """Sorted by name. ``totals``: counters of workers that have ended."""
    counted = [counters for report in reports for counters in report.accelerators]
    views = []
    for device in sorted(devices, key=lambda one: one.name):
        here = [counters for counters in counted if counters.name == device.name]
        view = AcceleratorStatus(
            name=device.name,
            memory_bytes=device.memory_bytes,
            leasable_bytes=min((counters.leasable_bytes for counters in here), default=0),
            leased_bytes=sum(counters.leased_bytes for counters in here),
            waits=totals.lease_waits.get(device.name, 0) + sum(counters.lease_waits for counters in here),
        )
        views.append(view)
    return views


def accelerator_metrics(out: Exposition, views: list[AcceleratorStatus]) -> None:
    named: list[tuple[LabelPairs, AcceleratorStatus]] = [
        ((("accelerator", view.name),), view) for view in views
    ]
    for name, kind, help_text, field in (
        ("memory_bytes", "gauge", "Memory of the device.", "memory_bytes"),
        (
            "leasable_bytes",
            "gauge",
            "Memory that requests through this proxy can lease on the device at one time.",
            "leasable_bytes",
        ),
        ("leased_bytes", "gauge", "Memory leased by requests in flight.", "leased_bytes"),
        (
            "lease_waits_total",
            "counter",
            "Requests that waited, or went to another replica, because the device was short of memory.",
            "waits",
        ),
    ):
        samples = [(labels, getattr(view, field)) for labels, view in named]
        out.family(f"switchyard_accelerator_{name}", kind, help_text, samples)


def accelerator_rows(views: list[AcceleratorStatus]) -> list[dict[str, Any]]:
    return [
        {
            "accelerator": view.name,
            "memory_bytes": view.memory_bytes,
            "leasable_bytes": view.leasable_bytes,
            "leased_bytes": view.leased_bytes,
            "lease_waits": view.waits,
        }
        for view in views
    ]
