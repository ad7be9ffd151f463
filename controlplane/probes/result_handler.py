"""Result handler: probe results → counters in Redis; on a change of health a row, an event, a publish.

Results come in batches: what changes nothing costs one script call for all of them, and what changes is one
transaction and one publish.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import msgspec
import redis

from controlplane.models import Replica
from controlplane.probes import keys, last_results, recent_traffic, schedule
from controlplane.probes.last_results import LastProbe
from controlplane.probes.prober import ReplicaProbeResult
from controlplane.probes.schedule import ResultRecord
from controlplane.probes.targets import DueReplica
from controlplane.services import health as health_service
from controlplane.services.health import Transition
from routing.contract import startup
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.health import Counters, HealthDecision, next_health

logger = logging.getLogger(__name__)

_NO_COUNTERS = Counters()


class Probed(NamedTuple):
    """A result, with what it was asked from."""

    target: DueReplica
    lease: int
    counters: Counters
    finding: ReplicaProbeResult


class Decided(NamedTuple):
    """And what it means."""

    probed: Probed
    decision: HealthDecision


def read_counters(client: "redis.Redis", uids: Sequence[str]) -> dict[str, Counters]:
    """Results in a row so far, by uid; after a flush all begin again. Raises redis.RedisError."""
    stored = client.hmget(keys.COUNTERS, list(uids)) if uids else []
    return {uid: _decode(text) for uid, text in zip(uids, stored, strict=True)}


def decide(client: "redis.Redis", results: Sequence[Probed]) -> list[Decided]:
    """What each means. One that cannot be judged is left out, with a log line. Raises redis.RedisError."""
    unsure = [one.target.uid for one in results if one.finding.verdict.inconclusive]
    answering = recent_traffic.answering(client, unsure)
    decided = []
    for one in results:
        try:
            decided.append(Decided(one, _decision(one, one.target.uid in answering)))
        except Exception:
            # One replica's trouble must not cost the others of its batch their results.
            logger.exception("the probe of %s could not be judged", one.target.name)
    return decided


def _decision(one: Probed, answering: bool) -> HealthDecision:
    target = one.target
    return next_health(
        target.state,
        one.counters,
        one.finding.verdict,
        target.checks.probe,
        has_passed=target.has_passed,
        in_startup_budget=target.in_startup_budget,
        answering=answering,
        rise=target.rise,
    )


def record_unchanged(client: "redis.Redis", results: Sequence[Decided], rng: Random) -> None:
    """Raises redis.RedisError: then the replicas are due again when their leases have run out."""
    schedule.record_results(client, [_recorded(one, one.decision.counters, rng) for one in results])


def record_changes(client: "redis.Redis", results: Sequence[Decided], rng: Random) -> None:
    """Those whose health changes: in the database, in one transaction, then on record.

    Raises redis.RedisError or django.db.Error: then the replicas are due again when their leases have
    run out, and nothing was half done that the next probe would not do.
    """
    if not results:
        return
    before = last_results.read_of(client, [one.probed.target.uid for one in results])
    ids = [one.probed.target.replica_id for one in results]
    urls = dict(Replica.objects.filter(pk__in=ids).values_list("pk", "url"))
    # Gone, or at another URL: what was found is not its own.
    present = [one for one in results if urls.get(one.probed.target.replica_id) == one.probed.target.url]
    written = health_service.record_transitions([_transition(one, before) for one in present])
    took = {one.probed.target.uid for one, yes in zip(present, written, strict=True) if yes}
    recorded = []
    for one in results:
        if one.probed.target.uid in took:
            recorded.append(_recorded(one, one.decision.counters, rng))
        else:
            # It was changed by somebody else meanwhile: look again, from what is true now.
            recorded.append(_recorded(one, _NO_COUNTERS, rng)._replace(due_in_s=schedule.FASTEST_S))
    schedule.record_results(client, recorded)


def _recorded(one: Decided, counters: Counters, rng: Random) -> ResultRecord:
    target, finding = one.probed.target, one.probed.finding
    return ResultRecord(
        target.uid,
        one.probed.lease,
        schedule.next_due_s(target.timing, finding.took_s, rng),
        "" if counters == _NO_COUNTERS else f"[{counters.rises},{counters.falls}]",
        last_results.encode(
            latency_s=finding.took_s, passed=finding.verdict.passed, answer=one.decision.reason
        ),
        finding.load_now(),
    )


def _transition(one: Decided, before: Mapping[str, LastProbe]) -> Transition:
    target, decision = one.probed.target, one.decision
    return Transition(
        target.replica_id,
        target.state,
        decision.state,
        decision.reason,
        decision.has_passed,
        starting=startup.begins_start(target.state, decision.state, one.probed.finding.verdict),
        startup_s=_startup_s(before.get(target.uid), target) if decision.state == "ready" else None,
        flaps=target.flaps.lost(time.time()) if target.state == "ready" else None,
    )


def _startup_s(before: LastProbe | None, target: DueReplica) -> float | None:
    """How long the start of a replica took that has just become ready; None where nobody saw it begin."""
    return startup.measured_duration(
        target.state,
        target.for_s,
        target.checks.probe.startup_budget_s,
        starting=target.starting,
        failed=before is not None and not before.passed and before.age_s <= target.for_s,
    )


def _decode(text: bytes | str | None) -> Counters:
    if text is None:
        return Counters()
    try:
        return Counters(*msgspec.json.decode(text, type=tuple[int, int]))
    except DECODE_ERRORS:
        return Counters()
