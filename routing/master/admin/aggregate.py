"""Metrics aggregation: adds up the telemetry reports of all workers.

The counts of a worker that has ended stay in the sums (:class:`RetiredCounters`), so no counter ever falls.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from routing.contract.ended_requests import EndedRequests
from routing.contract.load_report import younger
from routing.contract.telemetry import FleetCounters, KeyCounters, ReplicaCounters, WorkerReport
from routing.shared.totals_block import TotalsBlock

FLEET_COUNTERS = (
    "requests",
    "answered",
    "errors",
    "retries",
    "continued",
    "moved",
    "moved_prompt_tokens",
    "cancelled",
    "no_replica",
    "not_exposed",
    "would_refuse",
    "spilled",
    "stayed",
    "queued",
    "queue_full",
    "queue_late",
    "cold",
    "affinity_kept",
    "affinity_spilled",
    "affinity_new",
    "web_socket_messages",
    "web_socket_bytes",
    "picked_in_time",
    "predictions_within",
    "first_token_predictions_within",
)
COUNTERS_BY_CAUSE = ("not_continued", "second_attempts", "not_sent_twice", "no_fallback")
REPLICA_COUNTERS = (
    "picked",
    "succeeded",
    "failed",
    "rejected",
    "client_errors",
    "without_result",
    "truncated",
    "beaten",
    "cancelled",
    "ejections",
    "input_tokens",
    "output_tokens",
    "reports_refused",
)
PREFIX_COUNTERS = (
    "prefixes_sent",
    "prefixes_applied",
    "prefixes_left_out",
    "prefix_messages_refused",
)
"""Of a whole worker."""

_Counters = TypeVar("_Counters")
_Key = TypeVar("_Key")
_Added = TypeVar("_Added", contravariant=True)


class _Add(Protocol[_Added]):
    """Adds counters to a sum; ``live``: also the gauges, which only running workers have."""

    def __call__(self, into: _Added, more: _Added, /, *, live: bool) -> None: ...


class RetiredCounters:
    """Counters of workers that have ended, kept so that the proxy's counters only grow."""

    def __init__(self, block: TotalsBlock | None = None) -> None:
        """``block``: where the workers count ended requests; they never go from there."""
        self._block = block
        self.fleets: dict[str, FleetCounters] = {}
        self.rejected = 0
        self.refused_clients = 0
        self.evicted_clients = 0
        self.prefixes: Counter[str] = Counter()
        """By :data:`PREFIX_COUNTERS`."""
        self.gave_way: Counter[str] = Counter()
        self.cpu_s = 0.0
        self.lease_waits: dict[str, int] = {}
        """By accelerator."""
        self.keys: dict[str, KeyCounters] = {}
        """By the client keys' ids."""

    def ended(self, fleet: FleetCounters) -> EndedRequests | None:
        """The exact totals of a fleet. ``fleet``: what workers have reported of it, added up."""
        found = None if self._block is None else self._block.ended(fleet.name)
        return fleet.ended if found is None else found

    def retire(self, report: WorkerReport) -> None:
        """Add the last report of a worker that has ended. Its requests in flight ended with it."""
        self.rejected += report.rejected
        self.refused_clients += report.refused_clients
        self.evicted_clients += report.evicted_clients
        self.prefixes.update({name: getattr(report, name) for name in PREFIX_COUNTERS})
        self.gave_way.update(report.gave_way)
        self.cpu_s += report.cpu_s
        for device in report.accelerators:
            before = self.lease_waits.get(device.name, 0)
            self.lease_waits[device.name] = before + device.lease_waits
        for key in report.keys:
            _add_key(self.keys.setdefault(key.id, KeyCounters(id=key.id)), key, live=False)
        for fleet in report.fleets:
            _add_fleet(self.fleets.setdefault(fleet.name, FleetCounters(name=fleet.name)), fleet, live=False)


def aggregate_fleets(totals: RetiredCounters, reports: Iterable[WorkerReport]) -> list[FleetCounters]:
    """Sums for each fleet that some live worker still has, sorted by name."""
    live = ((fleet.name, fleet) for report in reports for fleet in report.fleets)
    merged = _merged(live, totals.fleets, lambda name: FleetCounters(name=name), _add_fleet)
    for fleet in merged:
        fleet.ended = ended = totals.ended(fleet)
        if ended is not None:
            fleet.errors, fleet.retries = ended.error_count, ended.retries
    return merged


def aggregate_keys(totals: RetiredCounters, reports: Iterable[WorkerReport]) -> list[KeyCounters]:
    """Sums for each client key that was used at some live worker, sorted by id."""
    live = ((key.id, key) for report in reports for key in report.keys)
    return _merged(live, totals.keys, lambda id: KeyCounters(id=id), _add_key)


def _merged(
    live: Iterable[tuple[str, _Counters]],
    ended: Mapping[str, _Counters],
    new: Callable[[str], _Counters],
    add: _Add[_Counters],
) -> list[_Counters]:
    """Sums of what live workers report, each with what ended workers had counted under the same name."""
    merged: dict[str, _Counters] = {}
    for name, counters in live:
        if name not in merged:
            merged[name] = new(name)
            if name in ended:
                add(merged[name], ended[name], live=False)
        add(merged[name], counters, live=True)
    return [merged[name] for name in sorted(merged)]


def _add_key(into: KeyCounters, key: KeyCounters, *, live: bool) -> None:
    into.requests += key.requests
    into.limited += key.limited
    into.limited_by = {
        limit: into.limited_by.get(limit, 0) + key.limited_by.get(limit, 0)
        for limit in into.limited_by | key.limited_by
    }
    into.tokens += key.tokens
    into.errors = {
        reason: into.errors.get(reason, 0) + key.errors.get(reason, 0) for reason in into.errors | key.errors
    }
    into.in_flight += key.in_flight if live else 0


def _add_fleet(into: FleetCounters, fleet: FleetCounters, *, live: bool) -> None:
    for field in FLEET_COUNTERS:
        setattr(into, field, getattr(into, field) + getattr(fleet, field))
    for field in COUNTERS_BY_CAUSE:
        setattr(into, field, _added(getattr(into, field), getattr(fleet, field)))
    into.fallbacks = {
        to: _added(into.fallbacks.get(to, {}), fleet.fallbacks.get(to, {}))
        for to in into.fallbacks | fleet.fallbacks
    }
    if live and fleet.ended is not None:
        into.ended = fleet.ended if into.ended is None else into.ended.plus(fleet.ended)
    into.latency = _added(into.latency, fleet.latency)
    into.first_token = _added(into.first_token, fleet.first_token)
    into.between_tokens = _added(into.between_tokens, fleet.between_tokens)
    into.waited = _added(into.waited, fleet.waited)
    into.prediction_error = _added(into.prediction_error, fleet.prediction_error)
    into.first_token_prediction_error = _added(
        into.first_token_prediction_error, fleet.first_token_prediction_error
    )
    if live:
        into.in_flight += fleet.in_flight
        into.waiting += fleet.waiting
        into.oldest_wait_s = max(into.oldest_wait_s, fleet.oldest_wait_s)
    replicas = {replica.uid: replica for replica in into.replicas}
    for replica in fleet.replicas:
        if replica.uid not in replicas:
            replicas[replica.uid] = ReplicaCounters(uid=replica.uid, name=replica.name)
        _add_replica(replicas[replica.uid], replica, live=live)
    live_uids = {replica.uid for replica in fleet.replicas}
    into.replicas = [replica for uid, replica in replicas.items() if not live or uid in live_uids]


def _add_replica(into: ReplicaCounters, replica: ReplicaCounters, *, live: bool) -> None:
    for field in REPLICA_COUNTERS:
        setattr(into, field, getattr(into, field) + getattr(replica, field))
    into.failed_by = _added(into.failed_by, replica.failed_by)
    if live:
        into.in_flight += replica.in_flight
        into.work += replica.work
        into.elsewhere = max(into.elsewhere, replica.elsewhere)
        into.reported = younger(into.reported, replica.reported)
        into.no_credential = into.no_credential or replica.no_credential
        if replica.ejected_for_s is not None:
            into.ejected_for_s = max(replica.ejected_for_s, into.ejected_for_s or 0.0)


def _added(counts: Mapping[_Key, int], more: Mapping[_Key, int]) -> dict[_Key, int]:
    summed = dict(counts)
    for key, count in more.items():
        summed[key] = summed.get(key, 0) + count
    return summed
