"""Deltas: what happened at one worker between two of its reports. Pure.

Counters in a report only grow while the worker's incarnation stays the same, so the difference of any
two reports is exact however many between them were lost. Where a counter has shrunk, whatever counted
it began again at zero, and all of the newer reading happened since.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat

from routing.contract import sketch
from routing.contract.ended_requests import EndedRequests
from routing.contract.telemetry import (
    FleetCounters,
    KeyCounters,
    ReplicaCounters,
    SparseSketch,
    WorkerReport,
)

SHORTEST_S = 0.05
"""Two reports closer than this are taken as this far apart, so that no rate explodes."""
REPORTS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ReplicaDelta:
    """One replica as one worker used it between two reports: counts, and seconds from pick to last byte."""

    picked: int = 0
    succeeded: int = 0
    failed: int = 0
    failed_by: dict[str, int] = field(default_factory=dict)
    """Outcome → how many of those that failed."""
    ejections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latency: SparseSketch = field(default_factory=dict)
    first_byte: SparseSketch = field(default_factory=dict)
    """Seconds from the request to the first byte of the replica's response."""
    first_token: SparseSketch = field(default_factory=dict)
    """The same to the first content of a streamed answer."""
    between_tokens: SparseSketch = field(default_factory=dict)


NOTHING = ReplicaDelta()


@dataclass(frozen=True, slots=True)
class QueueDelta:
    """One fleet's queue at one worker between two reports: requests, and seconds that those waited which
    found a slot."""

    queued: int = 0
    full: int = 0
    late: int = 0
    cold: int = 0
    waited: SparseSketch = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AffinityDelta:
    """Requests with a key between two reports, by where they went."""

    kept: int = 0
    spilled: int = 0
    new: int = 0


@dataclass(frozen=True, slots=True)
class SiteDelta:
    """Attempts between two reports, by whether they stayed at the proxy's own site."""

    stayed: int = 0
    spilled: int = 0


@dataclass(frozen=True, slots=True)
class FleetDelta:
    """One fleet at one worker between two reports. Replicas by uid."""

    requests: int = 0
    errors: int = 0
    ended: EndedRequests = field(default_factory=EndedRequests)
    """What ended, exactly: also what a worker that was killed meanwhile had not reported."""
    latency: SparseSketch = field(default_factory=dict)
    first_token: SparseSketch = field(default_factory=dict)
    between_tokens: SparseSketch = field(default_factory=dict)
    queue: QueueDelta = field(default_factory=QueueDelta)
    affinity: AffinityDelta = field(default_factory=AffinityDelta)
    site: SiteDelta = field(default_factory=SiteDelta)
    fell_back: dict[str, int] = field(default_factory=dict)
    """Another fleet → requests that it served in this one's place, and counts as its own."""
    replicas: dict[str, ReplicaDelta] = field(default_factory=dict)
    """Those at which anything happened."""


@dataclass(frozen=True, slots=True)
class KeyDelta:
    """One client key at one worker between two reports."""

    requests: int = 0
    limited: int = 0
    tokens: int = 0
    limited_by: dict[str, int] = field(default_factory=dict)
    """Limit → requests that it refused."""
    errors: dict[str, int] = field(default_factory=dict)
    """Reason → requests that failed so."""
    latency: SparseSketch = field(default_factory=dict)
    first_token: SparseSketch = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerDelta:
    """One worker between two reports; ``elapsed_s`` by the worker's own monotonic clock."""

    elapsed_s: float
    ended_elapsed_s: float
    """The same for :attr:`FleetDelta.ended`, which goes on over restarts."""
    cpu_s: float
    rejected: int
    """Requests rejected before a fleet was found."""
    fleets: dict[str, FleetDelta]
    keys: dict[str, KeyDelta] = field(default_factory=dict)
    """By id; only those with which something was done. There may be thousands more."""
    lease_waits: dict[str, int] = field(default_factory=dict)
    """Accelerator → requests for which memory was short there."""


def between(older: WorkerReport | None, newer: WorkerReport) -> WorkerDelta:
    """What ``newer`` counts beyond ``older``; without an older one, or after a restart, all of it."""
    ended = _ended_before(older, newer)
    restarted = older is not None and older.incarnation != newer.incarnation
    if restarted:
        older = None
    fleets = {fleet.name: fleet for fleet in older.fleets} if older else {}
    elapsed_s = max(newer.uptime_s - (older.uptime_s if older else 0.0), SHORTEST_S)
    keys = {key.id: key for key in older.keys} if older else {}
    waits = {device.name: device.lease_waits for device in older.accelerators} if older else {}
    return WorkerDelta(
        elapsed_s=elapsed_s,
        ended_elapsed_s=max(elapsed_s, REPORTS_EVERY_S) if restarted else elapsed_s,
        cpu_s=max(newer.cpu_s - (older.cpu_s if older else 0.0), 0.0),
        rejected=_grown(older.rejected if older else 0, newer.rejected),
        fleets={
            fleet.name: _fleet(fleets.get(fleet.name), fleet, ended.get(fleet.name)) for fleet in newer.fleets
        },
        keys={key.id: _key(before, key) for key in newer.keys if (before := keys.get(key.id)) != key},
        lease_waits={
            device.name: _grown(waits.get(device.name, 0), device.lease_waits)
            for device in newer.accelerators
        },
    )


def _ended_before(older: WorkerReport | None, newer: WorkerReport) -> dict[str, EndedRequests]:
    """The exact totals that ``newer`` goes on from; empty: it began with none."""
    if older is None or older.totals != newer.totals:
        return {}
    if not newer.totals and older.incarnation != newer.incarnation:
        return {}
    return {fleet.name: fleet.ended for fleet in older.fleets if fleet.ended is not None}


def _fleet(older: FleetCounters | None, newer: FleetCounters, ended: EndedRequests | None) -> FleetDelta:
    if older is not None and older.requests > newer.requests:
        older = None
    return FleetDelta(
        requests=newer.requests - (older.requests if older else 0),
        errors=_grown(older.errors if older else 0, newer.errors),
        ended=_ended(ended, newer.ended, newer.requests),
        latency=sketch.subtract(newer.latency, older.latency if older else {}),
        first_token=sketch.subtract(newer.first_token, older.first_token if older else {}),
        between_tokens=sketch.subtract(newer.between_tokens, older.between_tokens if older else {}),
        queue=_queue(older, newer),
        affinity=AffinityDelta(
            kept=_grown(older.affinity_kept if older else 0, newer.affinity_kept),
            spilled=_grown(older.affinity_spilled if older else 0, newer.affinity_spilled),
            new=_grown(older.affinity_new if older else 0, newer.affinity_new),
        ),
        site=SiteDelta(
            stayed=_grown(older.stayed if older else 0, newer.stayed),
            spilled=_grown(older.spilled if older else 0, newer.spilled),
        ),
        fell_back=_fell_back(older, newer),
        replicas=_replicas(older.replicas if older else [], newer.replicas),
    )


def _ended(older: EndedRequests | None, newer: EndedRequests | None, begun: int) -> EndedRequests:
    """``begun``: requests of the present process."""
    if newer is None:
        return EndedRequests()
    if older is not None and older.requests <= newer.requests:
        return newer.since(older)
    # Beyond its own it goes on from an earlier process, of which nobody knows how much was counted.
    return newer if newer.requests <= begun else EndedRequests()


def _fell_back(older: FleetCounters | None, newer: FleetCounters) -> dict[str, int]:
    before = older.fallbacks if older else {}
    return {
        to: _grown(sum(before.get(to, {}).values()), sum(causes.values()))
        for to, causes in newer.fallbacks.items()
    }


def _queue(older: FleetCounters | None, newer: FleetCounters) -> QueueDelta:
    return QueueDelta(
        queued=_grown(older.queued if older else 0, newer.queued),
        full=_grown(older.queue_full if older else 0, newer.queue_full),
        late=_grown(older.queue_late if older else 0, newer.queue_late),
        cold=_grown(older.cold if older else 0, newer.cold),
        waited=sketch.subtract(newer.waited, older.waited if older else {}),
    )


def _replicas(older: list[ReplicaCounters], newer: list[ReplicaCounters]) -> dict[str, ReplicaDelta]:
    """Of those at which anything happened. Counters that are the very same object were reported again
    (:mod:`.report_decoder`), and nothing happened there."""
    found: dict[str, ReplicaDelta] = {}
    if older is newer:
        return found
    elsewhere: dict[str, ReplicaCounters] | None = None
    for before, replica in zip(chain(older, repeat(None)), newer, strict=False):
        if before is replica:
            continue
        if before is None or before.uid != replica.uid:
            if elsewhere is None:
                elsewhere = {one.uid: one for one in older}
            before = elsewhere.get(replica.uid)
        delta = _replica(before, replica)
        if delta != NOTHING:
            found[replica.uid] = delta
    return found


def _replica(older: ReplicaCounters | None, newer: ReplicaCounters) -> ReplicaDelta:
    if older is not None and older.picked > newer.picked:
        older = None
    if older is not None and _nothing_happened(older, newer):
        return NOTHING
    return ReplicaDelta(
        picked=newer.picked - (older.picked if older else 0),
        succeeded=_grown(older.succeeded if older else 0, newer.succeeded),
        failed=_grown(older.failed if older else 0, newer.failed),
        failed_by=_counts_grown(older.failed_by if older else {}, newer.failed_by),
        ejections=_grown(older.ejections if older else 0, newer.ejections),
        input_tokens=_grown(older.input_tokens if older else 0, newer.input_tokens),
        output_tokens=_grown(older.output_tokens if older else 0, newer.output_tokens),
        latency=sketch.subtract(newer.latency, older.latency if older else {}),
        first_byte=sketch.subtract(newer.first_byte, older.first_byte if older else {}),
        first_token=sketch.subtract(newer.first_token, older.first_token if older else {}),
        between_tokens=sketch.subtract(newer.between_tokens, older.between_tokens if older else {}),
    )


def _nothing_happened(older: ReplicaCounters, newer: ReplicaCounters) -> bool:
    """Most replicas of a large installation are quiet in any second: they take no subtraction."""
    return (
        older.picked == newer.picked
        and older.succeeded == newer.succeeded
        and older.failed == newer.failed
        and older.ejections == newer.ejections
        and older.output_tokens == newer.output_tokens
        and older.input_tokens == newer.input_tokens
        and older.latency == newer.latency
        and older.first_byte == newer.first_byte
        and older.first_token == newer.first_token
        and older.between_tokens == newer.between_tokens
    )


def _key(older: KeyCounters | None, newer: KeyCounters) -> KeyDelta:
    if older is not None and older.requests > newer.requests:
        older = None
    before = older.limited_by if older else {}
    return KeyDelta(
        requests=newer.requests - (older.requests if older else 0),
        limited=_grown(older.limited if older else 0, newer.limited),
        tokens=_grown(older.tokens if older else 0, newer.tokens),
        limited_by={limit: _grown(before.get(limit, 0), count) for limit, count in newer.limited_by.items()},
        errors=_counts_grown(older.errors if older else {}, newer.errors),
        latency=sketch.subtract(newer.latency, older.latency if older else {}),
        first_token=sketch.subtract(newer.first_token, older.first_token if older else {}),
    )


def _counts_grown(older: Mapping[str, int], newer: Mapping[str, int]) -> dict[str, int]:
    return {name: grown for name, count in newer.items() if (grown := _grown(older.get(name, 0), count))}


def _grown(older: int, newer: int) -> int:
    return newer - older if newer >= older else newer
