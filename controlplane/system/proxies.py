"""Proxy workers: which table each routes from, how old its report is, how loaded it is. Pure."""

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict

from controlplane.system.processes import mark_replaced
from controlplane.system.status import ComponentStatus, ProxyWorkerStatus, other_version
from controlplane.telemetry import durations, emergency_drain_text
from controlplane.telemetry.merge import ReceivedReport
from controlplane.telemetry.notices import worker_shortages
from routing.contract.redis_keys import WORKER_TTL_S
from routing.contract.table import Version
from routing.contract.telemetry import WorkerReport

NAMES_SHOWN = 3


def rows(
    heard: Sequence[ReceivedReport],
    cpu_percent: Mapping[str, float],
    manifest: str | None,
    fleets: Mapping[str, str],
    software: str,
) -> list[ProxyWorkerStatus]:
    """By name. ``manifest``, ``fleets``: newest versions by the database; None and empty while it is away."""
    found = []
    for each in sorted(heard, key=lambda one: one.report.worker):
        report = each.report
        behind = behind_in(report, manifest, fleets)
        assessed = assess(report, each.age_s, behind, manifest, software)
        found.append(
            ProxyWorkerStatus(
                **asdict(assessed),
                name=report.worker,
                proxy=report.worker.rpartition("/")[0],
                site=report.site,
                software=report.software,
                pid=report.pid,
                table=report.manifest,
                behind=behind,
                age_s=round(each.age_s, 2),
                uptime_s=round(report.uptime_s, 1),
                cpu_percent=cpu_percent.get(report.worker),
                clients=report.clients,
                upstreams=report.upstreams,
                in_flight=sum(fleet.in_flight for fleet in report.fleets),
            )
        )
    for name in {_name_of_proxy(row) for row in found}:
        mark_replaced([row for row in found if _name_of_proxy(row) == name])
    return found


def _name_of_proxy(row: ProxyWorkerStatus) -> str:
    """Without its process id: that of its successor differs."""
    return row.proxy.rpartition("/")[0]


def assess(
    report: WorkerReport, age_s: float, behind: Sequence[str], manifest: str | None, software: str
) -> ComponentStatus:
    """The worst that can be said of it."""
    refused = refusals(report)
    if age_s > WORKER_TTL_S:
        return ComponentStatus(
            level="bad",
            state="silent",
            words=f"No report for {durations.words(age_s)}: it has stopped, or cannot reach Redis.",
            cure="Check its admin listener (/readyz, /status) and its log.",
        )
    if refused:
        return ComponentStatus(
            level="bad",
            state="refused",
            words=f"It refused a newer table and routes from its last good one: {'; '.join(refused)}.",
            cure="Correct what the message names; the worker tries the next version automatically.",
        )
    trouble = [f"{fleet.name}: {fleet.strategy_trouble}" for fleet in report.fleets if fleet.strategy_trouble]
    if trouble:
        return ComponentStatus(
            level="warn",
            state="astray",
            words=f"It does not pick by the chosen strategy. {'; '.join(trouble)}.",
            cure="Fix the strategy's package (the log has the traceback), or choose another strategy.",
        )
    if not report.redis_ok:
        return ComponentStatus(
            level="warn",
            state="no updates",
            words=f"It gets no new tables; its own is {durations.words(report.table_age_s)} old.",
            cure="It reconnects automatically; if it does not, check the network between it and Redis.",
        )
    if report.short_of:
        return _short(report)
    if report.draining:
        return ComponentStatus(
            level="notice", state="draining", words="It finishes its requests, then stops."
        )
    if behind:
        return ComponentStatus(
            level="warn",
            state="behind",
            words=f"It routes from an older table for {named(behind)}.",
            cure="It compares all versions every 5 s. If this lasts longer, check its log.",
        )
    if drained := emergency_drain_text.at_worker(report):
        return ComponentStatus(
            level="notice",
            state="current",
            words=f"Emergency drain at this proxy: {drained}.",
            cure="The drain expires automatically. To end it now: POST …/undrain at the admin listener.",
        )
    if manifest is not None and newer(report.manifest, manifest):
        return ComponentStatus(
            level="notice",
            state="ahead",
            words="Its table is newer than the one that was just read from the database.",
        )
    if report.software != software:
        return other_version("current", report.software, software)
    return ComponentStatus(level="calm", state="current", words="It routes from the newest table.")


def refusals(report: WorkerReport) -> list[str]:
    """What it does not take, and why; the manifest first, which lists the fleets."""
    manifest = [report.refused_manifest] if report.refused_manifest else []
    return manifest + [f"{fleet.name}: {fleet.refused}" for fleet in report.fleets if fleet.refused]


def _short(report: WorkerReport) -> ComponentStatus:
    """It has nearly as many connections, or descriptors, as it can."""
    words = f"It {worker_shortages.words(report)}."
    if report.short_of == "connections":
        return ComponentStatus(
            level="bad",
            state="full",
            words=words,
            cure="Raise --max-connections or ulimit -n, or add workers. It ends when clients disconnect.",
        )
    return ComponentStatus(
        level="warn",
        state="short",
        words=words,
        cure="Raise ulimit -n (LimitNOFILE of a service), or lower --max-connections.",
    )


def behind_in(report: WorkerReport, manifest: str | None, fleets: Mapping[str, str]) -> list[str]:
    """Fleets of which it has an older snapshot, or none; ``the list of fleets`` for its manifest."""
    if manifest is None:
        return []
    applied = {fleet.name: fleet.applied for fleet in report.fleets}
    found = [name for name, version in sorted(fleets.items()) if newer(version, applied.get(name, "0:0"))]
    return (["the list of fleets"] if newer(manifest, report.manifest) and not found else []) + found


def newer(one: str, other: str) -> bool:
    try:
        return Version.parse(one) > Version.parse(other)
    except ValueError:
        return False


def named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown
