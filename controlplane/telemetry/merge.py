"""Aggregation of all workers' reports: load and rates of each fleet now. Pure: ``now`` is an argument.

Rates are each worker's own: what it counted between its last two reports, over the seconds between them
by its own clock, so that reports and merges may run at different phases without the sum flickering.
A worker that was not heard for WORKER_TTL_S is gone, and its requests in flight with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controlplane.telemetry import key_traffic, measures
from controlplane.telemetry.deltas import WorkerDelta, between
from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.key_traffic import KeyState
from controlplane.telemetry.merged_numbers import (
    AcceleratorNumbers,
    FallbackNumbers,
    FleetNumbers,
    Merged,
    ReplicaNumbers,
    ReportingWorker,
    SiteNumbers,
)
from controlplane.telemetry.merged_replicas import MergedReplicas, ReplicasOfWorker
from controlplane.telemetry.queues import QueueWindow
from controlplane.telemetry.token_windows import (
    FailureWindow,
    TokenWindows,
    percentiles,
)
from controlplane.telemetry.window import Window
from routing.contract.redis_keys import WORKER_TTL_S
from routing.contract.telemetry import (
    FleetCounters,
    WorkerReport,
)

_Key = TypeVar("_Key")
_Window = TypeVar("_Window", Window, QueueWindow, TokenWindows, FailureWindow)

REMEMBERED_S = 600.0
"""How long a silent worker's last report is kept, so that its return is counted as a difference."""


@dataclass(frozen=True, slots=True)
class ReceivedReport:
    """A worker's last report and its age in seconds by the clock of Redis, which stored it."""

    report: WorkerReport
    age_s: float


@dataclass(slots=True)
class _KnownWorker:
    report: WorkerReport
    delta: WorkerDelta | None
    """Between its last two reports; ``None`` while only one is known."""
    seen_at: float
    """When its last report was merged."""


@dataclass(slots=True)
class MergeState:
    """What must be remembered from one merge to the next."""

    merged_at: float | None = None
    known: dict[str, _KnownWorker] = field(default_factory=dict)
    fleets: dict[str, Window] = field(default_factory=dict)
    replicas: dict[str, Window] = field(default_factory=dict)
    """By uid: those with requests lately."""
    merged_replicas: dict[str, MergedReplicas] = field(default_factory=dict)
    """By fleet."""
    queues: dict[str, QueueWindow] = field(default_factory=dict)
    """By fleet."""
    fell_back: dict[tuple[str, str], Window] = field(default_factory=dict)
    """By the fleet that was asked, and the one that served."""
    first_bytes: dict[str, Window] = field(default_factory=dict)
    """By fleet: responses that have begun, and how long that took."""
    tokens: dict[str, TokenWindows] = field(default_factory=dict)
    """By fleet."""
    replica_tokens: dict[str, TokenWindows] = field(default_factory=dict)
    """By uid: those with streams lately."""
    errors: dict[str, FailureWindow] = field(default_factory=dict)
    """By fleet: those with errors lately."""
    replica_failures: dict[str, FailureWindow] = field(default_factory=dict)
    """By uid: those with failures lately."""
    total: Window = field(default_factory=Window)
    total_tokens: TokenWindows = field(default_factory=TokenWindows)
    total_waits: Window = field(default_factory=Window)
    total_first_bytes: Window = field(default_factory=Window)
    refused: Window = field(default_factory=Window)
    """Requests that reached no fleet."""
    keys: KeyState = field(default_factory=KeyState)
    lease_waits: dict[str, Window] = field(default_factory=dict)
    """By accelerator."""


def merge(state: MergeState, reports: Iterable[ReceivedReport], now: float) -> Merged:
    """Take in all workers' last reports; answer what goes on now. ``now``: monotonic seconds.

    The same report may be given again (it counts once) and reports may be missing (the next one
    carries the sum).
    """
    live = {each.report.worker: each for each in reports if each.age_s <= WORKER_TTL_S}
    fresh = [(each, _take_in(state, each.report, now)) for each in live.values()]
    for name in [name for name, known in state.known.items() if now - known.seen_at > REMEMBERED_S]:
        del state.known[name]
    merged = Merged()
    answers: dict[str, int] = {}
    said: dict[str, list[ReplicasOfWorker]] = {}
    for each, delta in fresh:
        report = each.report
        if delta is not None:
            _count(state, delta, answers, now)
            measures.count(merged.news, delta)
            key_traffic.count(state.keys, merged.keys, delta, now)
        held = state.known[report.worker].delta
        cpu = 100 * held.cpu_s / held.elapsed_s if held else 0.0
        merged.workers[report.worker] = ReportingWorker(report, each.age_s, cpu)
        for counters in report.fleets:
            fleet = merged.fleets.setdefault(counters.name, FleetNumbers(counters.name))
            said.setdefault(counters.name, []).append(_add_fleet(fleet, report, counters, held))
        key_traffic.add(merged.keys, report, held)
        for device in report.accelerators:
            numbers = merged.accelerators.setdefault(device.name, AcceleratorNumbers())
            numbers.leased_bytes += device.leased_bytes
    key_traffic.read(state.keys, merged.keys, now)
    _expire_windows(state, merged, now)
    _merge_replicas(state, merged, said, answers)
    _note_drained(state, merged)
    _read_windows(state, merged, now)
    state.merged_at = now
    return merged


def _merge_replicas(
    state: MergeState,
    merged: Merged,
    said: Mapping[str, list[ReplicasOfWorker]],
    answers: Mapping[str, int],
) -> None:
    def read_lately(numbers: ReplicaNumbers) -> bool:
        return _read_replica(state, numbers, answers)

    for name in state.merged_replicas.keys() - said.keys():
        del state.merged_replicas[name]
    for name, workers in said.items():
        known = state.merged_replicas.setdefault(name, MergedReplicas())
        workers.sort(key=lambda one: one.process)
        merged.fleets[name].replicas = known.merge(workers, read_lately)


def _read_replica(state: MergeState, numbers: ReplicaNumbers, answers: Mapping[str, int]) -> bool:
    """What happened at it lately; whether anything did."""
    uid = numbers.uid
    numbers.answers = answers.get(uid, 0)
    recent, streams = state.replicas.get(uid), state.replica_tokens.get(uid)
    failures = state.replica_failures.get(uid)
    if recent:
        numbers.p50_s, numbers.p99_s = recent.quantile(0.5), recent.quantile(0.99)
        numbers.p95_s = recent.quantile(0.95)
        numbers.window_requests = recent.requests
    if streams:
        numbers.first_token = percentiles(streams.first)
        numbers.between_tokens = percentiles(streams.between)
    if failures:
        numbers.failures = failures.counts()
    return bool(recent or streams or failures)


def _note_drained(state: MergeState, merged: Merged) -> None:
    """Emergency drains, which proxies report beside their counters."""
    drained: dict[tuple[str, str], dict[str, float]] = {}
    for worker in merged.workers.values():
        proxy = worker.report.worker.rpartition("/")[0]
        for one in worker.report.drained_by_hand:
            at = drained.setdefault((one.fleet, one.replica), {})
            at[proxy] = max(at.get(proxy, 0.0), one.expires_in_s)
    for fleet in merged.fleets.values() if drained else ():
        for uid, replica in fleet.replicas.items():
            if at := drained.get((fleet.name, replica.name), {}):
                replica.drained_at = at
                replica.drained_everywhere = at.keys() >= fleet.queue.proxies
                state.merged_replicas[fleet.name].said_by_hand(uid)


def _take_in(state: MergeState, report: WorkerReport, now: float) -> WorkerDelta | None:
    """Remember a report; what it newly counts, or ``None`` when it is known or the first of its worker."""
    known = state.known.get(report.worker)
    if known is not None and (known.report.incarnation, known.report.sequence) == (
        report.incarnation,
        report.sequence,
    ):
        return None
    if known is None and not _began_since(state, report, now):
        # Its counters hold hours that nobody watched: a baseline, not a burst.
        state.known[report.worker] = _KnownWorker(report, None, now)
        return None
    delta = between(known.report if known else None, report)
    state.known[report.worker] = _KnownWorker(report, delta, now)
    return delta


def _began_since(state: MergeState, report: WorkerReport, now: float) -> bool:
    return state.merged_at is not None and report.uptime_s <= now - state.merged_at + WORKER_TTL_S / 2


def _count(state: MergeState, delta: WorkerDelta, answers: dict[str, int], now: float) -> None:
    if delta.elapsed_s > WINDOW_S:  # mostly older than the window: a rate, but no latencies of now
        return
    state.refused.add(now, delta.rejected, 0, {})
    for name, waits in delta.lease_waits.items():
        state.lease_waits.setdefault(name, Window()).add(now, waits, 0, {})
    for name, fleet in delta.fleets.items():
        state.fleets.setdefault(name, Window()).add(now, fleet.requests, fleet.errors, fleet.latency)
        # Those that fell back are counted in the other fleet.
        fell_back = sum(fleet.fell_back.values())
        state.total.add(now, fleet.requests - fell_back, fleet.errors, fleet.latency)
        for to, count in fleet.fell_back.items():
            state.fell_back.setdefault((name, to), Window()).add(now, count, 0, {})
        state.queues.setdefault(name, QueueWindow()).add(now, fleet.queue)
        state.total_waits.add(now, 0, 0, fleet.queue.waited)
        state.tokens.setdefault(name, TokenWindows()).add(now, fleet.first_token, fleet.between_tokens)
        state.total_tokens.add(now, fleet.first_token, fleet.between_tokens)
        if fleet.ended.errors:
            state.errors.setdefault(name, FailureWindow()).add(now, fleet.ended.errors)
        first_bytes = state.first_bytes.setdefault(name, Window())
        for uid, replica in fleet.replicas.items():
            begun = sum(replica.first_byte.values())
            first_bytes.add(now, begun, 0, replica.first_byte)
            state.total_first_bytes.add(now, begun, 0, replica.first_byte)
            state.replicas.setdefault(uid, Window()).add(now, replica.picked, replica.failed, replica.latency)
            answers[uid] = answers.get(uid, 0) + replica.succeeded
            if replica.first_token or replica.between_tokens:
                windows = state.replica_tokens.setdefault(uid, TokenWindows())
                windows.add(now, replica.first_token, replica.between_tokens)
            if replica.failed_by:
                state.replica_failures.setdefault(uid, FailureWindow()).add(now, replica.failed_by)


def _add_fleet(
    fleet: FleetNumbers, report: WorkerReport, counters: FleetCounters, held: WorkerDelta | None
) -> ReplicasOfWorker:
    """Adds what one worker says of a fleet; returns what it says of its replicas."""
    fleet.in_flight += counters.in_flight
    fleet.would_refuse += counters.would_refuse
    fleet.queue.add(report.worker, counters)
    fleet.applied[report.worker] = counters.applied
    fleet.told.append(counters)
    if counters.refused:
        fleet.refused[report.worker] = counters.refused
    for to, causes in counters.fallbacks.items():
        _add_counts(fleet.fallbacks.setdefault(to, FallbackNumbers()).causes, causes)
    _add_counts(fleet.no_fallback, counters.no_fallback)
    site = fleet.sites.setdefault(report.site, SiteNumbers())
    delta = held.fleets.get(counters.name) if held else None
    said = ReplicasOfWorker(
        *(report.worker, report.incarnation, counters.replicas),
        delta.replicas if delta else {},
        held.elapsed_s if held else 1.0,
    )
    if held is not None and delta is not None:
        fleet.rps += delta.requests / held.elapsed_s
        ended = sum(sum(replica.latency.values()) for replica in delta.replicas.values())
        fleet.served_per_s += ended / held.elapsed_s
        fleet.errors_per_s += delta.errors / held.elapsed_s
        fleet.kept_per_s += delta.affinity.kept / held.elapsed_s
        fleet.spilled_per_s += delta.affinity.spilled / held.elapsed_s
        fleet.new_per_s += delta.affinity.new / held.elapsed_s
        site.stayed_per_s += delta.site.stayed / held.elapsed_s
        site.spilled_per_s += delta.site.spilled / held.elapsed_s
        tokens = sum(replica.output_tokens for replica in delta.replicas.values())
        fleet.output_tokens_per_s += tokens / held.elapsed_s
        tokens = sum(replica.input_tokens for replica in delta.replicas.values())
        fleet.input_tokens_per_s += tokens / held.elapsed_s
        fleet.retries_per_s += delta.ended.retries / held.ended_elapsed_s
        ejected = sum(replica.ejections for replica in delta.replicas.values())
        fleet.ejections_per_s += ejected / held.elapsed_s
        for reason, count in delta.ended.errors.items():
            before = fleet.error_reasons.get(reason, 0.0)
            fleet.error_reasons[reason] = before + count / held.ended_elapsed_s
        for to, count in delta.fell_back.items():
            fleet.fallbacks.setdefault(to, FallbackNumbers()).per_s += count / held.elapsed_s
    return said


def _add_counts(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0) + count


def _expire_windows(state: MergeState, merged: Merged, now: float) -> None:
    _expire(state.fleets, merged.fleets.keys(), now)
    _expire(state.replicas, (), now)
    _expire(state.queues, merged.fleets.keys(), now)
    _expire(state.first_bytes, merged.fleets.keys(), now)
    _expire(state.tokens, merged.fleets.keys(), now)
    _expire(state.replica_tokens, (), now)
    _expire(state.replica_failures, (), now)
    _expire(state.errors, (), now)
    state.total_tokens.expire(now)
    state.total_waits.expire(now)
    _expire(state.lease_waits, merged.accelerators.keys(), now)
    pairs = {(name, to) for name, fleet in merged.fleets.items() for to in fleet.fallbacks}
    _expire(state.fell_back, pairs, now)
    state.total.expire(now)
    state.total_first_bytes.expire(now)
    state.refused.expire(now)


def _read_windows(state: MergeState, merged: Merged, now: float) -> None:
    merged.refused_per_s = state.refused.requests / WINDOW_S
    for name, device in merged.accelerators.items():
        if recent := state.lease_waits.get(name):
            device.lease_waits = recent.requests
    total = merged.total
    for fleet in merged.fleets.values():
        total.rps += fleet.rps - sum(one.per_s for one in fleet.fallbacks.values())
        for to, fallback in fleet.fallbacks.items():
            if recent := state.fell_back.get((fleet.name, to)):
                fallback.lately = recent.requests
        total.errors_per_s += fleet.errors_per_s
        total.in_flight += fleet.in_flight
        total.output_tokens_per_s += fleet.output_tokens_per_s
        total.input_tokens_per_s += fleet.input_tokens_per_s
        total.retries_per_s += fleet.retries_per_s
        total.ejections_per_s += fleet.ejections_per_s
        for reason, per_s in fleet.error_reasons.items():
            total.error_reasons[reason] = total.error_reasons.get(reason, 0.0) + per_s
        total.queue.waiting += fleet.queue.waiting
        if window := state.fleets.get(fleet.name):
            _read_window(fleet, window)
        if begun := state.first_bytes.get(fleet.name):
            fleet.first_byte = percentiles(begun)
        if errors := state.errors.get(fleet.name):
            fleet.lately_failed = errors.counts()
        if streams := state.tokens.get(fleet.name):
            fleet.first_token = percentiles(streams.first)
            fleet.between_tokens = percentiles(streams.between)
        if (waits := state.queues.get(fleet.name)) is not None:
            fleet.waits = percentiles(waits.waits)
            fleet.queue.read(waits, now)
    _read_window(total, state.total)
    total.first_byte = percentiles(state.total_first_bytes)
    total.first_token = percentiles(state.total_tokens.first)
    total.between_tokens = percentiles(state.total_tokens.between)
    total.waits = percentiles(state.total_waits)


def _read_window(fleet: FleetNumbers, window: Window) -> None:
    fleet.p50_s, fleet.p99_s = window.quantile(0.5), window.quantile(0.99)
    fleet.p95_s = window.quantile(0.95)
    fleet.error_percent = window.error_percent
    fleet.window_requests = window.requests


def _expire(windows: dict[_Key, _Window], reported: Iterable[_Key], now: float) -> None:
    """Move windows on, and drop the empty ones of fleets and replicas that no worker reports any more."""
    for window in windows.values():
        window.expire(now)
    for name in [name for name in windows.keys() - set(reported) if not windows[name]]:
        del windows[name]
