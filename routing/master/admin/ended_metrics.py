"""Ended requests and streams on ``/metrics``: exact totals, good requests by objective (SLI), token times."""

from collections.abc import Iterable

from routing.contract.ended_requests import EndedRequests
from routing.contract.telemetry import FleetCounters, ReplicaCounters
from routing.master.admin.exposition import BUCKETS_S, Exposition, LabelPairs

TOKEN_BUCKETS_S = (0.001, 0.0025, *BUCKETS_S)
"""Tokens of fast servers come a few milliseconds after each other."""


def ended_metrics(out: Exposition, fleets: Iterable[FleetCounters]) -> None:
    """``fleets``: the workers' reports, added up."""
    fleets = list(fleets)
    ended: list[tuple[LabelPairs, EndedRequests]] = [
        ((("fleet", fleet.name),), fleet.ended) for fleet in fleets if fleet.ended is not None
    ]
    results = [
        ((*labels, ("result", result)), count)
        for labels, one in ended
        for result, count in (
            ("served", one.served),
            ("client_error", one.client_errors),
            ("error", one.error_count),
            ("dropped", one.dropped),
        )
    ]
    help_text = "Requests that have ended, by result; dropped: the client left, or its own time limit passed."
    out.family("switchyard_ended_requests_total", "counter", help_text, results)
    reasons = [
        ((*labels, ("reason", reason)), count)
        for labels, one in ended
        for reason, count in sorted(one.errors.items())
    ]
    help_text = "Requests that ended with an error, by reason."
    out.family("switchyard_errors_by_reason_total", "counter", help_text, reasons)
    for name, help_text in (
        ("input_tokens", "Tokens of prompts, as answers report them, or as estimated."),
        ("output_tokens", "Tokens of answers, as far as they could be counted."),
    ):
        tokens = [(labels, getattr(one, name)) for labels, one in ended]
        out.family(f"switchyard_{name}_total", "counter", help_text, tokens)
    judged = [
        ((*labels, ("objective", name)), total, good)
        for labels, one in ended
        for name, total, good in one.objectives()
    ]
    help_text = "Requests that count for the objective of their fleet's slo."
    out.family("switchyard_objective_requests_total", "counter", help_text, [(at, n) for at, n, _ in judged])
    help_text = "Those of them that have met it."
    out.family("switchyard_objective_good_total", "counter", help_text, [(at, n) for at, _, n in judged])
    out.histogram(
        "switchyard_first_token_duration_seconds",
        "Time from the complete request head to the first content of a streamed answer.",
        [((("fleet", fleet.name),), fleet.first_token) for fleet in fleets],
        TOKEN_BUCKETS_S,
    )
    out.histogram(
        "switchyard_between_tokens_duration_seconds",
        "Time between two tokens of a streamed answer, on average over the answer.",
        [((("fleet", fleet.name),), fleet.between_tokens) for fleet in fleets],
        TOKEN_BUCKETS_S,
    )


def failed_by_metrics(out: Exposition, replicas: Iterable[tuple[LabelPairs, ReplicaCounters]]) -> None:
    """Failed attempts by outcome. ``replicas``: the workers' reports, added up."""
    failed = [
        ((*labels, ("outcome", outcome)), count)
        for labels, replica in replicas
        for outcome, count in sorted(replica.failed_by.items())
    ]
    help_text = "Failed attempts at the replica, by outcome."
    out.family("switchyard_replica_failed_by_total", "counter", help_text, failed)
