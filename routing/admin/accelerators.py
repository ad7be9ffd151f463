"""Accelerators as all workers of a proxy see them: rows of ``/status``, families of ``/metrics``."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from routing.admin.exposition import Exposition, Labels
from routing.admin.report_sums import Totals
from routing.contract.table import AcceleratorSpec
from routing.contract.telemetry import WorkerReport


class AcceleratorView(NamedTuple):
    """One device of the table."""

    name: str
    memory_bytes: int
    leasable_bytes: int
    """At one time, by requests through this proxy."""
    leased_bytes: int
    waits: int


def accelerator_views(
    devices: Iterable[AcceleratorSpec], totals: Totals, reports: Iterable[WorkerReport]
) -> list[AcceleratorView]:
    """By name. ``totals``: of workers that are gone."""
    counted = [counters for report in reports for counters in report.accelerators]
    views = []
    for device in sorted(devices, key=lambda one: one.name):
        here = [counters for counters in counted if counters.name == device.name]
        view = AcceleratorView(
            name=device.name,
            memory_bytes=device.memory_bytes,
            leasable_bytes=min((counters.leasable_bytes for counters in here), default=0),
            leased_bytes=sum(counters.leased_bytes for counters in here),
            waits=totals.lease_waits.get(device.name, 0) + sum(counters.lease_waits for counters in here),
        )
        views.append(view)
    return views


def accelerator_families(out: Exposition, views: list[AcceleratorView]) -> None:
    named: list[tuple[Labels, AcceleratorView]] = [((("accelerator", view.name),), view) for view in views]
    for name, kind, help_text, field in (
        ("memory_bytes", "gauge", "Memory of the device.", "memory_bytes"),
        (
            "leasable_bytes",
            "gauge",
            "What requests through this proxy can lease of it at one time.",
            "leasable_bytes",
        ),
        ("leased_bytes", "gauge", "Leased by requests in flight.", "leased_bytes"),
        (
            "lease_waits_total",
            "counter",
            "Requests that had to wait, or went elsewhere, because memory was short on the device.",
            "waits",
        ),
    ):
        samples = [(labels, getattr(view, field)) for labels, view in named]
        out.family(f"switchyard_accelerator_{name}", kind, help_text, samples)


def accelerator_rows(views: list[AcceleratorView]) -> list[dict[str, Any]]:
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
