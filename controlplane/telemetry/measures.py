"""Measures: what happened at a fleet or a replica, or with a client key, as counts and sketches. Pure.

Two times' measures are added up, so percentiles of any longer time are those of merged sketches. As a row of
history they are the numbers of :class:`controlplane.telemetry.frames.Point` beside the sketches.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from controlplane.telemetry.deltas import NOTHING, FleetDelta, KeyDelta, ReplicaDelta, WorkerDelta
from controlplane.telemetry.frames import Point
from routing.contract import sketch
from routing.contract.ended_requests import EndedRequests
from routing.contract.telemetry import SparseSketch

FIELDS: tuple[str, ...] = tuple(name for name in Point.__struct_fields__ if name != "at")
"""The numbers of a row, in their order there. New ones come last, so that older rows can be read."""
REASONS = "error_reasons"
_PREFIXES = {
    "": "latency",
    "first_byte_": "first_byte",
    "first_token_": "first_token",
    "between_tokens_": "between_tokens",
    "queue_": "queue",
}
PERCENTILES: dict[str, tuple[str, float]] = {
    f"{prefix}p{percent}_s": (kind, percent / 100)
    for prefix, kind in _PREFIXES.items()
    for percent in (50, 95, 99)
}
"""Field → its kind of sketch, and which quantile of it."""
KINDS = frozenset(_PREFIXES.values())
"""Of sketches."""
AVERAGES = tuple(name for name in FIELDS if name not in PERCENTILES and name != REASONS)
"""Rates and gauges: over a longer time their average."""

HistorySubject = str
"""``fleet:NAME``, ``replica:UID`` or ``key:ID``."""


def of_fleet(name: str) -> HistorySubject:
    return f"fleet:{name}"


def of_replica(uid: str) -> HistorySubject:
    return f"replica:{uid}"


def of_key(id: str) -> HistorySubject:
    return f"key:{id}"


@dataclass(slots=True)
class Measures:
    """Counts of one subject, over a time that its holder knows."""

    requests: int = 0
    errors: int = 0
    retries: int = 0
    ejections: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Errors by reason; of a replica failures by outcome, of a key refusals by limit as well."""
    in_flight_s: float = 0.0
    """Requests in flight, times the seconds that they were. So is the next."""
    waiting_s: float = 0.0
    ended: EndedRequests | None = None
    """Exact totals, of fleets."""
    sketches: dict[str, SparseSketch] = field(default_factory=dict)
    """By kind."""

    def sketch(self, kind: str, counts: Mapping[int, int]) -> None:
        """Add durations of a kind."""
        if not counts:
            return
        own = self.sketches.setdefault(kind, {})
        for bucket, count in counts.items():
            own[bucket] = own.get(bucket, 0) + count

    def by_reason(self, counts: Mapping[str, int]) -> None:
        """Add errors."""
        for reason, count in counts.items():
            if count:
                self.reasons[reason] = self.reasons.get(reason, 0) + count

    def values(self, seconds: float) -> list[Any]:
        """The numbers of a row, if it was all within so many seconds."""
        rates = {
            "rps": self.requests,
            "errors_per_s": self.errors,
            "retries_per_s": self.retries,
            "ejections_per_s": self.ejections,
            "input_tokens_per_s": self.input_tokens,
            "output_tokens_per_s": self.output_tokens,
            "in_flight": self.in_flight_s,
            "waiting": self.waiting_s,
        }
        found: dict[str, Any] = {name: round(count / seconds, 6) for name, count in rates.items()}
        found[REASONS] = {reason: round(count / seconds, 6) for reason, count in self.reasons.items()}
        return [_percentile(self.sketches, name) if name in PERCENTILES else found[name] for name in FIELDS]


def _percentile(sketches: Mapping[str, SparseSketch], name: str) -> float | None:
    kind, q = PERCENTILES[name]
    return sketch.quantile(sketches.get(kind, {}), q)


class HistoryRow(msgspec.Struct, array_like=True, frozen=True):
    """One subject in one time, as it is kept. ``values``: numbers in the order of ``FIELDS``, maybe of an
    older version that had fewer."""

    at: float
    """When that time ended, Unix seconds."""
    values: list[Any]
    ended: msgspec.Raw = msgspec.Raw(b"null")
    sketches: msgspec.Raw = msgspec.Raw(b"{}")
    """By kind, packed; opened only where percentiles of a longer time are asked for."""
    seconds: int = 60
    """How long that time was."""


def row(measures: Measures, at: float, seconds: int) -> HistoryRow:
    """What was measured in the ``seconds`` before ``at``."""
    return HistoryRow(
        at,
        measures.values(seconds),
        msgspec.Raw(msgspec.json.encode(measures.ended)),
        packed_sketches(measures.sketches),
        seconds,
    )


def packed_sketches(sketches: Mapping[str, SparseSketch]) -> msgspec.Raw:
    """Of each kind the buckets in order, as the distance from the one before, and its count, in turns: most
    are neighbours, so that takes half the room of numbers by bucket."""
    return msgspec.Raw(msgspec.json.encode({kind: _packed(counts) for kind, counts in sketches.items()}))


def _packed(counts: SparseSketch) -> list[int]:
    found: list[int] = []
    before = 0
    for bucket in sorted(counts):
        found += (bucket - before, counts[bucket])
        before = bucket
    return found


def count(into: dict[HistorySubject, Measures], delta: WorkerDelta) -> None:
    """Add what one worker newly counted."""
    for name, fleet in delta.fleets.items():
        _count_fleet(into.setdefault(of_fleet(name), Measures()), fleet)
        for uid, replica in fleet.replicas.items():
            if replica is not NOTHING and _is_used(replica):
                _count_replica(into.setdefault(of_replica(uid), Measures()), replica)
    for id, key in delta.keys.items():
        if key.requests or key.tokens or key.errors or key.latency:
            _count_key(into.setdefault(of_key(id), Measures()), key)


def add(into: Measures, more: Measures) -> None:
    """Both together."""
    into.requests += more.requests
    into.errors += more.errors
    into.retries += more.retries
    into.ejections += more.ejections
    into.input_tokens += more.input_tokens
    into.output_tokens += more.output_tokens
    into.in_flight_s += more.in_flight_s
    into.waiting_s += more.waiting_s
    into.by_reason(more.reasons)
    if more.ended is not None:
        into.ended = more.ended if into.ended is None else into.ended.plus(more.ended)
    for kind, counts in more.sketches.items():
        into.sketch(kind, counts)


def _count_fleet(into: Measures, fleet: FleetDelta) -> None:
    ended = fleet.ended
    into.requests += fleet.requests
    into.errors += fleet.errors
    into.retries += ended.retries
    into.input_tokens += ended.input_tokens
    into.output_tokens += ended.output_tokens
    into.by_reason(ended.errors)
    into.ended = ended if into.ended is None else into.ended.plus(ended)
    into.sketch("latency", fleet.latency)
    into.sketch("first_token", fleet.first_token)
    into.sketch("between_tokens", fleet.between_tokens)
    into.sketch("queue", fleet.queue.waited)
    for replica in fleet.replicas.values():
        if replica is NOTHING:
            continue
        into.ejections += replica.ejections
        into.sketch("first_byte", replica.first_byte)


def _count_replica(into: Measures, replica: ReplicaDelta) -> None:
    into.requests += replica.picked
    into.errors += replica.failed
    into.ejections += replica.ejections
    into.input_tokens += replica.input_tokens
    into.output_tokens += replica.output_tokens
    into.by_reason(replica.failed_by)
    into.sketch("latency", replica.latency)
    into.sketch("first_byte", replica.first_byte)
    into.sketch("first_token", replica.first_token)
    into.sketch("between_tokens", replica.between_tokens)


def _count_key(into: Measures, key: KeyDelta) -> None:
    into.requests += key.requests
    into.errors += key.limited
    into.output_tokens += key.tokens
    into.by_reason(key.limited_by)
    into.by_reason(key.errors)
    into.sketch("latency", key.latency)
    into.sketch("first_token", key.first_token)


def _is_used(replica: ReplicaDelta) -> bool:
    return bool(
        replica.picked or replica.latency or replica.failed or replica.output_tokens or replica.ejections
    )


def merged_sketches(rows: Iterable[HistoryRow], kinds: Collection[str]) -> dict[str, SparseSketch]:
    """Of these kinds, of all rows together."""
    merged: dict[str, SparseSketch] = {kind: {} for kind in kinds}
    decode = _decoder(frozenset(kinds))
    for one in rows:
        found = decode(one.sketches)
        for kind, sums in merged.items():
            bucket, packed = 0, getattr(found, kind)
            for distance, count in zip(packed[::2], packed[1::2], strict=True):
                bucket += distance
                sums[bucket] = sums.get(bucket, 0) + count
    return {kind: sums for kind, sums in merged.items() if sums}


@cache
def _decoder(kinds: frozenset[str]) -> Callable[[msgspec.Raw], Any]:
    """Reads these kinds only: the others cost next to nothing."""
    struct = msgspec.defstruct("PackedSketches", [(kind, list[int], []) for kind in sorted(kinds)])
    return msgspec.json.Decoder(struct).decode
