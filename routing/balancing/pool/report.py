"""Replica report: a pool's replicas in counters for telemetry, and in words for people."""

from collections.abc import Container, Iterable, Iterator

import msgspec

from routing.balancing.learning import reported_load
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.learning.learned_scale import scale_of
from routing.balancing.locality.site_split import SiteSplit
from routing.balancing.outlier import doubt_text
from routing.balancing.outlier.eligibility import Eligibility, asked_despite, ineligible_because
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.fault_isolation import IsolatedStrategy
from routing.contract.telemetry import FleetCounters, ReplicaCounters


class ReplicaExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, and whether it gets new requests."""

    uid: str
    name: str
    eligible: bool
    """Whether admin state, health and ejection all allow it."""
    asked: bool
    """Whether it receives requests: it is eligible, or too few others are, and its devices have the memory
    for a usual one."""
    reasons: list[str]
    """In plain words: why it is not eligible, why it gets requests all the same, when a replica of another
    site gets requests, that it is in doubt (softly ejected, tried out, held to its share) or just back, which
    device is short of memory. Empty: none of these."""


def explanations(
    replicas: Iterable[Replica], found: Eligibility, now: float, work: float, sites: SiteSplit | None
) -> Iterator[ReplicaExplanation]:
    """Of each replica, why it gets requests or not. ``work``: of a usual request. ``sites``: set where sites
    matter."""
    asked = frozenset(found.eligible)
    for replica in replicas:
        yield _explanation(replica, asked, now, work, sites)


def _explanation(
    replica: Replica, asked: Container[Replica], now: float, work: float, sites: SiteSplit | None
) -> ReplicaExplanation:
    reasons = ineligible_because(replica, now)
    despite = asked_despite(replica, asked) if reasons else ""
    when = "" if reasons or sites is None else sites.when_asked(replica)
    doubt = doubt_text.words(replica, now) if despite or not reasons else ""
    short = "" if replica.memory is None else replica.memory.why_not(Demand(work))
    return ReplicaExplanation(
        uid=replica.uid,
        name=replica.name,
        eligible=not reasons,
        asked=(not reasons or bool(despite)) and not short,
        reasons=[*reasons, *(words for words in (despite, when, doubt, short) if words)],
    )


def replica_counters(replica: Replica, speed: FleetSpeed, now: float) -> ReplicaCounters:
    """A replica's part of a worker's report. The sketches are shared, not copied: encode it at once.
    ``speed``: what its fleet has learned."""
    state = replica.ejection
    moves = replica.moves
    streams = replica.streams
    learned = bool(replica.speed.units or replica.speed.peer_units)
    return ReplicaCounters(
        uid=replica.uid,
        name=replica.name,
        picked=replica.picked,
        succeeded=replica.succeeded,
        failed=replica.failed,
        in_flight=replica.in_flight,
        work=replica.work,
        seconds_per_work=replica.seconds_per_work if learned else None,
        learned=scale_of(speed, replica, now),
        input_tokens=replica.input_tokens,
        output_tokens=replica.output_tokens,
        ejected_for_s=max(0.0, state.until - now) if state.until else None,
        ejection_reason=state.reason,
        ejections=state.count,
        doubt=doubt_text.words(replica, now),
        continuation=replica.continuation.words(),
        movable=moves.movable,
        movable_prompt_tokens=moves.movable_prompt_tokens,
        staying=moves.staying,
        moved=moves.moved,
        moved_prompt_tokens=moves.moved_prompt_tokens,
        no_credential=replica.security.no_credential,
        reported=reported_load.latest(replica, now),
        reports_refused=replica.load_reports.refused,
        elsewhere=replica.external_load,
        latency=replica.latency,
        first_byte=replica.first_byte,
        first_token={} if streams is None else streams.first_token,
        between_tokens={} if streams is None else streams.between_tokens,
        **replica.outcomes.counts(),
    )


def fill_fleet_counters(
    counters: FleetCounters, speed: FleetSpeed, strategy: Strategy, corrected: bool, now: float
) -> None:
    """What a fleet has learned, into its counters. ``corrected``: whether estimates are calibrated."""
    counters.usual_s = speed.mean_seconds
    counters.usual_work = speed.mean_work if speed.mean_seconds else 0.0
    counters.answer_tokens = speed.known_answer_tokens
    counters.estimates_explain = speed.calibration.explained
    counters.estimates_corrected = corrected
    shape = speed.shape
    counters.growth, counters.growth_error, counters.batching = (
        shape.growth,
        shape.growth_error,
        shape.batching,
    )
    counters.growth_evidence, counters.growth_measured = shape.evidence, shape.measured
    predictions = speed.predictions
    counters.predictions_within = predictions.completions.within
    counters.prediction_error = predictions.completions.errors
    counters.first_token_predictions_within = predictions.first_tokens.within
    counters.first_token_prediction_error = predictions.first_tokens.errors
    counters.strategy_trouble = strategy.trouble(now) if isinstance(strategy, IsolatedStrategy) else ""
