"""Restart status: rolling restarts, upgrades and draining workers, for ``/status`` and ``/metrics``."""

from typing import Any, NamedTuple

from routing.contract.telemetry import WorkerReport
from routing.master.admin.exposition import Exposition


class LeavingWorker(NamedTuple):
    """A worker process that has been replaced and is draining."""

    slot: int
    pid: int | None
    report: WorkerReport | None


class RestartStatus(NamedTuple):
    """The status of a proxy's rolling restarts and upgrades."""

    under_way: bool
    replaced: int
    failed: int
    leaving: list[LeavingWorker]
    upgrades_failed: int = 0


def leaving_rows(leaving: list[LeavingWorker]) -> list[dict[str, Any]]:
    """For ``/status``: one row for each replaced worker that is draining."""
    return [{"worker": one.slot, "pid": one.pid, "in_flight": _in_flight(one.report)} for one in leaving]


def restart_metrics(out: Exposition, view: RestartStatus) -> None:
    help_text = "1 while a rolling restart is under way."
    out.family("switchyard_rolling_restart", "gauge", help_text, [((), int(view.under_way))])
    help_text = "Rolling restarts that ended because a new worker failed."
    out.family("switchyard_rolling_restart_failures_total", "counter", help_text, [((), view.failed)])
    help_text = "Workers replaced in rolling restarts."
    out.family("switchyard_replaced_workers_total", "counter", help_text, [((), view.replaced)])
    help_text = "Upgrades that failed; the old master kept running."
    out.family("switchyard_upgrade_failures_total", "counter", help_text, [((), view.upgrades_failed)])
    help_text = "Replaced workers that still finish their requests."
    out.family("switchyard_leaving_workers", "gauge", help_text, [((), len(view.leaving))])


def _in_flight(report: WorkerReport | None) -> int | None:
    """Requests in flight, by the worker's last report."""
    return None if report is None else sum(fleet.in_flight for fleet in report.fleets)
