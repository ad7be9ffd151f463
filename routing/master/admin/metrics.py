"""Prometheus metrics of ``/metrics``: all workers of one proxy, added up.

Names and units follow Prometheus' conventions: base units, ``_total`` on counters. Cardinality is bounded:
histograms have the label ``fleet`` only; counters and gauges have at most fleet and replica.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from routing.contract.table import AcceleratorSpec, FleetSnapshot, Version
from routing.contract.telemetry import FleetCounters, ReplicaCounters, WorkerReport
from routing.contract.version import VERSION
from routing.ipc import descriptors
from routing.master.admin import process_stats
from routing.master.admin.accelerators import accelerator_metrics, accelerator_statuses
from routing.master.admin.aggregate import (
    FLEET_COUNTERS,
    PREFIX_COUNTERS,
    REPLICA_COUNTERS,
    RetiredCounters,
    aggregate_fleets,
    aggregate_keys,
)
from routing.master.admin.bound_metrics import bound_metrics
from routing.master.admin.certificate_status import CertificateStatus, certificate_metrics
from routing.master.admin.ended_metrics import ended_metrics, failed_by_metrics
from routing.master.admin.export_status import ExportStatus, export_metrics
from routing.master.admin.exposition import Exposition, LabelPairs
from routing.master.admin.key_status import key_metrics
from routing.master.admin.kv_event_status import KvEventStatus, kv_event_metrics
from routing.master.admin.prediction_metrics import prediction_metrics
from routing.master.admin.queue_metrics import queue_metrics
from routing.master.admin.replica_metrics import ReplicaKey, load_report_metrics, replica_metrics
from routing.master.admin.restart_status import RestartStatus, restart_metrics

_HELP = {
    "requests": "Requests for the fleet.",
    "answered": "Requests with a response from a replica.",
    "errors": "Requests that failed with a 5xx, from a replica or from the proxy.",
    "retries": "Retries: attempts after the first.",
    "continued": "Streamed answers that had broken off and that another replica has continued.",
    "moved": "Streams that have left a replica drained with move, for another.",
    "moved_prompt_tokens": "Prompt tokens that others have to read for moved streams, as estimated.",
    "cancelled": "Requests that ended early: the client left, its own timeout passed, or, at a replica, "
    "they were moved.",
    "no_replica": "Requests rejected because no replica was eligible.",
    "not_exposed": "Requests refused because the fleet does not expose their path or model.",
    "would_refuse": "Requests forwarded by a fleet without expose, that expose: inference would refuse.",
    "spilled": "Attempts at replicas of a site other than the proxy's.",
    "stayed": "Attempts at replicas of the own site, or of no site, if other sites have replicas.",
    "queued": "Requests that had to wait in the queue.",
    "queue_full": "Requests rejected because the queue was full, or displaced by another request.",
    "queue_late": "Requests rejected because they waited too long in the queue, or would have.",
    "cold": "Requests rejected because every replica was still loading.",
    "affinity_kept": "Requests sent to the replica of their affinity key.",
    "affinity_spilled": "Requests sent elsewhere: their affinity key's replica had too much load or no slot.",
    "affinity_new": "Requests whose affinity key had no replica yet.",
    "web_socket_messages": "Messages on proxied WebSockets, of clients and replicas together.",
    "web_socket_bytes": "Bytes on proxied WebSockets, both ways, frames included.",
    "picked_in_time": "Requests sent to another replica than the strategy's choice, "
    "where they were likelier in time.",
    "predictions_within": "Sampled responses that were complete within the interval predicted "
    "for 80 % of them.",
    "first_token_predictions_within": "Sampled streams whose first token came within its predicted interval.",
    "picked": "Attempts sent to the replica.",
    "succeeded": "Successful attempts.",
    "failed": "Failed attempts: 5xx, lost or refused connection, truncated stream, timeout.",
    "rejected": "Attempts that the replica refused because of load: 429, or 503 with Retry-After.",
    "client_errors": "Attempts with a 4xx response from the replica, except 429.",
    "without_result": "Attempts with 200 and a body that is no answer of its protocol, "
    "where other replicas answer.",
    "truncated": "Failed attempts with a stream that ended before its answer did, though well in HTTP.",
    "beaten": "Attempts given up because a second replica was asked as well and has answered first.",
    "input_tokens": "Tokens of prompts, as responses report them, or as estimated.",
    "output_tokens": "Tokens in responses, as far as they could be counted.",
    "reports_refused": "Responses with an invalid load report.",
    "ejections": "Ejections of the replica.",
    "prefixes_sent": "Prompt prefixes told to other hosts.",
    "prefixes_applied": "Prompt prefixes of other hosts that were noted.",
    "prefixes_left_out": "Prompt prefixes not told or not noted: too many at once, or Redis was away.",
    "prefix_messages_refused": "Messages about prompt prefixes that could not be read.",
}

_BY_CAUSE = (
    (
        "not_continued",
        "cause",
        "Streamed answers that broke off and were not continued by another replica, by cause.",
    ),
    (
        "second_attempts",
        "result",
        "Requests sent to a second replica as well, because the first had sent nothing, by its result.",
    ),
    (
        "not_sent_twice",
        "cause",
        "Requests whose replica had sent nothing and that were not sent to a second one, by cause.",
    ),
    (
        "no_fallback",
        "cause",
        "Times that a request did not fall back, though the policy has another fleet for it, by cause.",
    ),
)
NO_RESTARTS = RestartStatus(False, 0, 0, [])


class WorkerStatus(NamedTuple):
    """One supervised worker."""

    number: int
    pid: int | None
    up: bool
    restarts: int
    report: WorkerReport | None
    """The last report of the present process."""
    report_age_s: float | None = None


def render(
    workers: list[WorkerStatus],
    totals: RetiredCounters,
    draining: bool,
    snapshots: Collection[FleetSnapshot],
    drained: Mapping[ReplicaKey, float],
    certificate: CertificateStatus | None = None,
    accelerators: Iterable[AcceleratorSpec] = (),
    restarts: RestartStatus = NO_RESTARTS,
    kv_events: Iterable[KvEventStatus] = (),
    traces: ExportStatus | None = None,
) -> bytes:
    """The whole page. ``snapshots`` and ``accelerators``: of the table. ``drained``: replicas with an
    emergency drain, and the seconds left. ``certificate``: of the listener, with TLS. ``kv_events``: of
    replicas that are listened to. ``traces``: of their export; ``None``: there is none."""
    found = [worker.report for worker in workers] + [leaving.report for leaving in restarts.leaving]
    reports = [report for report in found if report is not None]
    out = Exposition()
    version = (("version", VERSION), ("process", "proxy"))
    out.family("switchyard_build_info", "gauge", "1, with the software's version.", [(version, 1)])
    _process_metrics(out, workers)
    _proxy_metrics(out, workers, totals, reports, draining)
    present = {worker.number: worker.report for worker in workers if worker.report is not None}
    ended = [one.report for one in restarts.leaving if one.report is not None]
    bound_metrics(out, totals.gave_way, present, ended)
    restart_metrics(out, restarts)
    if certificate is not None:
        certificate_metrics(out, certificate)
    fleets = aggregate_fleets(totals, reports)
    _fleet_metrics(out, fleets)
    ended_metrics(out, fleets)
    prediction_metrics(out, fleets)
    queue_metrics(out, snapshots, fleets)
    replica_metrics(out, snapshots, drained, fleets)
    kv_event_metrics(out, kv_events)
    export_metrics(out, traces)
    left = [((("fleet", fleet), ("replica", name)), left_s) for (fleet, name), left_s in drained.items()]
    help_text = "Seconds until the replica's emergency drain at this proxy ends; only while there is one."
    out.family("switchyard_replica_drained_by_hand_seconds", "gauge", help_text, left)
    key_metrics(out, aggregate_keys(totals, reports))
    accelerator_metrics(out, accelerator_statuses(accelerators, totals, reports))
    _version_metrics(out, reports)
    return out.encode()


def _process_metrics(out: Exposition, workers: list[WorkerStatus]) -> None:
    """The master's under Prometheus' standard names (``process_…``), the workers' under names of our own."""
    if master := process_stats.read(os.getpid()):
        for name, kind, help_text, value in (
            ("cpu_seconds_total", "counter", "CPU used by the master.", master.cpu_s),
            ("resident_memory_bytes", "gauge", "Resident memory of the master.", master.resident_bytes),
            ("max_fds", "gauge", "Open files that the master may have.", descriptors.limit()),
            ("open_fds", "gauge", "Open files of the master.", master.open_files),
            ("start_time_seconds", "gauge", "Start of the master, Unix time.", master.started_s),
        ):
            out.family(f"process_{name}", kind, help_text, [((), value)])
    seen = [(w, process_stats.read(w.pid)) for w in workers if w.pid is not None]
    alive: list[tuple[LabelPairs, process_stats.ProcessStats]] = [
        ((("worker", str(w.number)),), numbers) for w, numbers in seen if numbers is not None
    ]
    memory = [(labels, numbers.resident_bytes) for labels, numbers in alive]
    out.family("switchyard_worker_resident_memory_bytes", "gauge", "Resident memory of the worker.", memory)
    files = [(labels, numbers.open_files) for labels, numbers in alive]
    out.family("switchyard_worker_open_fds", "gauge", "Open files and sockets of the worker.", files)
    ages: list[tuple[LabelPairs, float]] = [
        ((("worker", str(w.number)),), w.report_age_s) for w in workers if w.report_age_s is not None
    ]
    out.family("switchyard_worker_report_age_seconds", "gauge", "Time since the worker's last report.", ages)


def _proxy_metrics(
    out: Exposition,
    workers: list[WorkerStatus],
    totals: RetiredCounters,
    reports: list[WorkerReport],
    draining: bool,
) -> None:
    slots: list[tuple[LabelPairs, WorkerStatus]] = [((("worker", str(w.number)),), w) for w in workers]
    up = [(labels, int(worker.up)) for labels, worker in slots]
    out.family("switchyard_worker_up", "gauge", "1 while the worker accepts connections.", up)
    restarts = [(labels, worker.restarts) for labels, worker in slots]
    out.family(
        "switchyard_worker_restarts_total", "counter", "Processes started to replace the worker's.", restarts
    )
    compiled = [(labels, int(worker.report.compiled)) for labels, worker in slots if worker.report]
    words = "1: the worker runs compiled modules; 0: from source."
    out.family("switchyard_worker_compiled", "gauge", words, compiled)
    _capacity_metrics(out, workers)
    connected = bool(reports) and all(report.redis_ok for report in reports)
    age_s = max((report.table_age_s for report in reports), default=0.0)

    def gauge(name: str, help_text: str, value: float) -> None:
        out.family(f"switchyard_{name}", "gauge", help_text, [((), value)])

    def counter(name: str, help_text: str, value: float) -> None:
        out.family(f"switchyard_{name}_total", "counter", help_text, [((), value)])

    gauge("draining", "1 while the proxy drains.", int(draining))
    sharers = max((report.limits_shared_by for report in reports), default=1)
    gauge("limits_shared_by", "Proxies that share the limits, this one included.", sharers)
    gauge("client_connections", "Open client connections.", sum(r.clients for r in reports))
    gauge("upstream_connections", "Open connections to replicas.", sum(r.upstreams for r in reports))
    gauge(
        "table_source_connected",
        "1 while every worker is connected to its source of routing tables.",
        int(connected),
    )
    gauge(
        "table_age_seconds",
        "Time since the table was last known to be the newest; the largest of all workers.",
        age_s,
    )
    counter("cpu_seconds", "CPU used by all workers.", totals.cpu_s + sum(r.cpu_s for r in reports))
    refused = totals.rejected + sum(r.rejected for r in reports)
    counter("rejected_requests", "Requests rejected before a fleet was found.", refused)
    turned_away = totals.refused_clients + sum(r.refused_clients for r in reports)
    counter(
        "refused_connections",
        "Client connections refused because the connection limit was reached.",
        turned_away,
    )
    evicted = totals.evicted_clients + sum(r.evicted_clients for r in reports)
    counter("evicted_connections", "Idle client connections closed to make room for new ones.", evicted)
    for name in PREFIX_COUNTERS:
        counter(name, _HELP[name], totals.prefixes[name] + sum(getattr(r, name) for r in reports))


def _capacity_metrics(out: Exposition, workers: list[WorkerStatus]) -> None:
    """Connections and descriptors that each worker may have, and client connections in use."""
    reports: list[tuple[LabelPairs, WorkerReport]] = [
        ((("worker", str(w.number)),), w.report) for w in workers if w.report is not None
    ]
    for name, help_text, field in (
        ("max_fds", "Open files and sockets that the worker may have.", "max_fds"),
        ("client_connections", "Open client connections of the worker.", "clients"),
        ("max_client_connections", "Connection limit of the worker for clients.", "max_clients"),
    ):
        samples = [(labels, getattr(report, field)) for labels, report in reports]
        out.family(f"switchyard_worker_{name}", "gauge", help_text, samples)
    short = [(labels, int(bool(report.short_of))) for labels, report in reports]
    help_text = "1 while the worker is close to its limit of open files, or refuses or displaces connections."
    out.family("switchyard_worker_short", "gauge", help_text, short)


def _fleet_metrics(out: Exposition, fleets: list[FleetCounters]) -> None:
    named: list[tuple[LabelPairs, FleetCounters]] = [((("fleet", fleet.name),), fleet) for fleet in fleets]
    for field in FLEET_COUNTERS:
        samples = [(labels, getattr(fleet, field)) for labels, fleet in named]
        out.family(f"switchyard_{field}_total", "counter", _HELP[field], samples)
    for field, label, help_text in _BY_CAUSE:
        counts = [
            ((*labels, (label, cause)), count)
            for labels, fleet in named
            for cause, count in sorted(getattr(fleet, field).items())
        ]
        out.family(f"switchyard_{field}_total", "counter", help_text, counts)
    fell_back = [
        ((*labels, ("to", to), ("cause", cause)), count)
        for labels, fleet in named
        for to, causes in sorted(fleet.fallbacks.items())
        for cause, count in sorted(causes.items())
    ]
    help_text = "Requests that another fleet has served, which counts them too, by that fleet and the cause."
    out.family("switchyard_fallbacks_total", "counter", help_text, fell_back)
    in_flight = [(labels, fleet.in_flight) for labels, fleet in named]
    out.family("switchyard_requests_in_flight", "gauge", "Requests in flight.", in_flight)
    out.histogram(
        "switchyard_request_duration_seconds",
        "Time from the complete request head to the last byte of the response.",
        [(labels, fleet.latency) for labels, fleet in named],
    )
    replicas: list[tuple[LabelPairs, ReplicaCounters]] = [
        ((("fleet", fleet.name), ("replica", replica.name)), replica)
        for fleet in fleets
        for replica in fleet.replicas
    ]
    for field in REPLICA_COUNTERS:
        samples = [(labels, getattr(replica, field)) for labels, replica in replicas]
        out.family(f"switchyard_replica_{field}_total", "counter", _HELP[field], samples)
    failed_by_metrics(out, replicas)
    load = [(labels, replica.in_flight) for labels, replica in replicas]
    out.family("switchyard_replica_in_flight", "gauge", "Attempts in flight at the replica.", load)
    work = [(labels, round(replica.work, 6)) for labels, replica in replicas]
    help_text = "Estimated work of the attempts in flight at the replica, in units of the fleet's protocol."
    out.family("switchyard_replica_outstanding_work", "gauge", help_text, work)
    load_report_metrics(out, replicas)
    ejected = [(labels, int(replica.ejected_for_s is not None)) for labels, replica in replicas]
    out.family("switchyard_replica_ejected", "gauge", "1 while the replica is ejected.", ejected)


def _version_metrics(out: Exposition, reports: list[WorkerReport]) -> None:
    """Versions of the worker that is furthest behind, so that an alert can detect it."""
    oldest: dict[str, Version] = {}
    refused: dict[str, int] = {}
    for report in reports:
        for fleet in report.fleets:
            version = Version.parse(fleet.applied)
            oldest[fleet.name] = min(oldest.get(fleet.name, version), version)
            refused[fleet.name] = max(refused.get(fleet.name, 0), int(bool(fleet.refused)))
    out.family(
        "switchyard_manifest_refused",
        "gauge",
        "1 while a worker refuses the manifest in Redis: it is invalid, or of another installation.",
        [((), int(any(report.refused_manifest for report in reports)))],
    )
    named: list[tuple[LabelPairs, str]] = [((("fleet", name),), name) for name in sorted(oldest)]
    out.family(
        "switchyard_table_version",
        "gauge",
        "Version of the fleet's table in the worker that is furthest behind.",
        [(labels, oldest[name].number) for labels, name in named],
    )
    out.family(
        "switchyard_table_epoch",
        "gauge",
        "Epoch of the fleet's table in the worker that is furthest behind.",
        [(labels, oldest[name].epoch) for labels, name in named],
    )
    out.family(
        "switchyard_table_refused",
        "gauge",
        "1 while a worker has refused a newer table of the fleet.",
        [(labels, refused[name]) for labels, name in named],
    )
