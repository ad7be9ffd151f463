"""Result handler: a probe's result → counters in Redis; on a change of health a row, an event, a publish."""

from collections.abc import Sequence
from random import Random

import msgspec
import redis

from controlplane.models import Replica
from controlplane.probes import keys, last_results, recent_traffic, schedule
from controlplane.probes.prober import ReplicaProbeResult
from controlplane.probes.targets import DueReplica
from controlplane.services import health as health_service
from routing.contract import startup
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.health import Counters, HealthDecision, next_health


def read_counters(client: "redis.Redis", uids: Sequence[str]) -> dict[str, Counters]:
    """Results in a row so far, by uid; after a flush all begin again. Raises redis.RedisError."""
    stored = client.hmget(keys.COUNTERS, list(uids)) if uids else []
    return {uid: _decode(text) for uid, text in zip(uids, stored, strict=True)}


def handle(
    client: "redis.Redis",
    target: DueReplica,
    lease: int,
    counters: Counters,
    finding: ReplicaProbeResult,
    rng: Random,
) -> HealthDecision:
    """Decide what the finding means and record it; returns the decision.

    Raises redis.RedisError or django.db.Error: then the replica is due again when its lease has
    run out, and nothing was half done that the next probe would not do.
    """
    verdict = finding.verdict
    decision = next_health(
        target.state,
        counters,
        verdict,
        target.checks.probe,
        has_passed=target.has_passed,
        in_startup_budget=target.in_startup_budget,
        answering=verdict.inconclusive and recent_traffic.is_answering(client, target.uid),
    )
    due_in_s = schedule.next_due_s(target.timing, finding.took_s, rng)
    counted = decision.counters
    if decision.changed and not _record(client, target, finding, decision):
        # It was changed by somebody else meanwhile: look again, from what is true now.
        counted, due_in_s = Counters(), schedule.FASTEST_S
    schedule.record_result(
        client,
        target.uid,
        lease,
        due_in_s=due_in_s,
        counters=msgspec.json.encode(list(counted)).decode(),
        result=last_results.encode(latency_s=finding.took_s, passed=verdict.passed, answer=decision.reason),
        load=finding.load_now(),
    )
    return decision


def _record(
    client: "redis.Redis", target: DueReplica, finding: ReplicaProbeResult, decision: HealthDecision
) -> bool:
    """False: the replica is gone, has another URL, or another state than the one judged from."""
    if not Replica.objects.filter(pk=target.replica_id, url=target.url).exists():
        return False
    return health_service.record_transition(
        target.replica_id,
        target.state,
        decision.state,
        decision.reason,
        decision.has_passed,
        starting=startup.begins_start(target.state, decision.state, finding.verdict),
        startup_s=_startup_s(client, target) if decision.state == "ready" else None,
    )


def _startup_s(client: "redis.Redis", target: DueReplica) -> float | None:
    """How long the start of a replica took that has just become ready; None where nobody saw it begin."""
    before = last_results.read_of(client, [target.uid]).get(target.uid)
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
