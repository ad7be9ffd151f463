"""Frames for who may see some fleets only: the others are left out, and of every sum."""

import msgspec

from controlplane.telemetry.frames import FleetSummary, OverviewFrame, Point


def overview_of(frame: bytes | str, fleets: frozenset[str]) -> bytes:
    """The overview frame with these fleets only, as JSON. Percentiles over all fleets are left out: they
    cannot be had from those of each."""
    read = msgspec.json.decode(frame, type=OverviewFrame)
    kept = [_without_others(fleet, fleets) for fleet in read.fleets if fleet.name in fleets]
    errors_per_s = sum(fleet.rps * fleet.error_percent / 100 for fleet in kept)
    total = _total(kept, read.total.at, errors_per_s)
    return msgspec.json.encode(
        msgspec.structs.replace(
            read,
            fleets=kept,
            total=total,
            replicas=sum(fleet.replicas for fleet in kept),
            eligible=sum(fleet.eligible for fleet in kept),
            error_percent=100 * errors_per_s / total.rps if total.rps else 0.0,
            refused_per_s=0.0,
            workers=[msgspec.structs.replace(worker, strategy_trouble="") for worker in read.workers],
        )
    )


def _without_others(summary: FleetSummary, fleets: frozenset[str]) -> FleetSummary:
    """Less the fleets to which it falls back that are not among these."""
    seen = [one for one in summary.fallbacks if one.fleet in fleets]
    return msgspec.structs.replace(summary, fallbacks=seen)


def _total(fleets: list[FleetSummary], at: float, errors_per_s: float) -> Point:
    return Point(
        at=at,
        rps=sum(fleet.rps - sum(one.per_s for one in fleet.fallbacks) for fleet in fleets),
        p50_s=None,
        p99_s=None,
        errors_per_s=errors_per_s,
        in_flight=sum(fleet.in_flight for fleet in fleets),
        waiting=sum(fleet.queue.waiting for fleet in fleets),
        output_tokens_per_s=sum(fleet.output_tokens_per_s for fleet in fleets),
        input_tokens_per_s=sum(fleet.input_tokens_per_s for fleet in fleets),
        retries_per_s=sum(fleet.retries_per_s for fleet in fleets),
        ejections_per_s=sum(fleet.ejections_per_s for fleet in fleets),
        error_reasons=_reasons(fleets),
    )


def _reasons(fleets: list[FleetSummary]) -> dict[str, float]:
    found: dict[str, float] = {}
    for fleet in fleets:
        for reason, per_s in fleet.error_reasons.items():
            found[reason] = found.get(reason, 0.0) + per_s
    return found
