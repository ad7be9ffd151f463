"""Aggregation of all workers' reports: load and rates of each fleet now. Pure: ``now`` is an argument.

Rates are each worker's own: what it counted between its last two reports, over the seconds between them
by its own clock, so that reports and merges may run at different phases without the sum flickering.
A worker that was not heard for WORKER_TTL_S is gone, and its requests in flight with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from controlplane.telemetry import key_traffic, measures
from controlplane.telemetry.deltas import FleetDelta, WorkerDelta, between
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
from controlplane.telemetry.queues import QueueWindow
from controlplane.telemetry.token_windows import (
    FailureWindow,
    TokenWindows,
    percentiles,
)
from controlplane.telemetry.window import Window
from routing.contract.load_report import younger
from routing.contract.redis_keys import WORKER_TTL_S
from routing.contract.telemetry import (
    SAID_BY_ANOTHER,
    FleetCounters,
    ReplicaCounters,
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
            _add_fleet(fleet, report, counters, held)
        if report.drained_by_hand:
            _note_drained(merged, report)
        key_traffic.add(merged.keys, report, held)
        for device in report.accelerators:
            numbers = merged.accelerators.setdefault(device.name, AcceleratorNumbers())
            numbers.leased_bytes += device.leased_bytes
    for fleet in merged.fleets.values():
        for replica in fleet.replicas.values():
            replica.drained_everywhere = bool(replica.drained_at) and (
                replica.drained_at.keys() >= fleet.queue.proxies
            )
    key_traffic.read(state.keys, merged.keys, now)
    _read_windows(state, merged, answers, now)
    state.merged_at = now
    return merged


def _note_drained(merged: Merged, report: WorkerReport) -> None:
    proxy = report.worker.rpartition("/")[0]
    for one in report.drained_by_hand:
        fleet = merged.fleets.get(one.fleet)
        for replica in fleet.replicas.values() if fleet is not None else ():
            if replica.name == one.replica:
                left_s = max(replica.drained_at.get(proxy, 0.0), one.expires_in_s)
                replica.drained_at[proxy] = left_s


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
) -> None:
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
    for replica in counters.replicas:
        numbers = fleet.replicas.setdefault(replica.uid, ReplicaNumbers(replica.uid, replica.name))
        _add_replica(numbers, report, replica, delta, held.elapsed_s if held else 1.0)


def _add_counts(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        into[name] = into.get(name, 0) + count


def _add_replica(
    numbers: ReplicaNumbers,
    report: WorkerReport,
    counters: ReplicaCounters,
    fleet: FleetDelta | None,
    elapsed_s: float,
) -> None:
    numbers.in_flight += counters.in_flight
    numbers.movable += counters.movable
    numbers.movable_prompt_tokens += counters.movable_prompt_tokens
    numbers.staying.update(counters.staying)
    numbers.moved += counters.moved
    numbers.moved_prompt_tokens += counters.moved_prompt_tokens
    delta = fleet.replicas.get(counters.uid) if fleet else None
    if delta is not None:
        numbers.rps += delta.picked / elapsed_s
        numbers.errors_per_s += delta.failed / elapsed_s
        numbers.input_tokens_per_s += delta.input_tokens / elapsed_s
        numbers.output_tokens_per_s += delta.output_tokens / elapsed_s
    if counters.no_credential:
        numbers.no_credential = counters.no_credential
        numbers.no_credential_at += 1
    if counters.seconds_per_work is not None:
        numbers.speeds.append(counters.seconds_per_work)
    if counters.learned is not None:
        numbers.scales.append(counters.learned)
    numbers.reported = younger(numbers.reported, counters.reported)
    numbers.workers += 1
    if counters.ejected_for_s is not None:
        numbers.ejected_by += 1
        numbers.ejected_for_s = max(numbers.ejected_for_s, counters.ejected_for_s)
        numbers.ejection_reason = _telling(numbers, counters)
    if counters.doubt:
        # The longest tells most: what one worker has heard of its answers, another may not.
        numbers.doubt = max(numbers.doubt, counters.doubt, key=len)
        numbers.doubted_by += 1
    numbers.ejections[(report.worker, report.incarnation)] = counters.ejections


def _telling(numbers: ReplicaNumbers, counters: ReplicaCounters) -> str:
    """The reason of an ejection: of the worker that has ejected the replica most often, and of one that
    follows another's ejection only if no other tells more."""
    known, said = numbers.ejection_reason, counters.ejection_reason
    if said.startswith(SAID_BY_ANOTHER):
        return known or said
    newest = counters.ejections > max(numbers.ejections.values(), default=-1)
    return said if newest or not known or known.startswith(SAID_BY_ANOTHER) else known


def _read_windows(state: MergeState, merged: Merged, answers: dict[str, int], now: float) -> None:
    reported = {uid for fleet in merged.fleets.values() for uid in fleet.replicas}
    _expire(state.fleets, merged.fleets.keys(), now)
    _expire(state.replicas, reported, now)
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
        for uid, replica in fleet.replicas.items():
            replica.answers = answers.get(uid, 0)
            if recent := state.replicas.get(uid):
                replica.p50_s, replica.p99_s = recent.quantile(0.5), recent.quantile(0.99)
                replica.p95_s = recent.quantile(0.95)
                replica.window_requests = recent.requests
            if streams := state.replica_tokens.get(uid):
                replica.first_token = percentiles(streams.first)
                replica.between_tokens = percentiles(streams.between)
            if failures := state.replica_failures.get(uid):
                replica.failures = failures.counts()
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
