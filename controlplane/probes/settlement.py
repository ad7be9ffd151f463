"""A probe's finding → counters in Redis, and on a change of health a row, an event and a publish."""

from collections.abc import Sequence
from random import Random

import msgspec
import redis

from controlplane.models import Replica
from controlplane.probes import keys, last, schedule
from controlplane.probes.prober import Finding
from controlplane.probes.targets import Target
from controlplane.services import health as health_service
from controlplane.telemetry import answering
from routing.contract import startup
from routing.contract.health import Counters, Step, step
from routing.contract.unreadable import UNREADABLE


def read_counters(client: "redis.Redis", uids: Sequence[str]) -> dict[str, Counters]:
    """Results in a row so far, by uid; after a flush all begin again. Raises redis.RedisError."""
    stored = client.hmget(keys.COUNTERS, list(uids)) if uids else []
    return {uid: _decode(text) for uid, text in zip(uids, stored, strict=True)}


def settle(
    client: "redis.Redis", target: Target, lease: int, counters: Counters, finding: Finding, rng: Random
) -> Step:
    """Decide what the finding means and record it; returns the decision.

    Raises redis.RedisError or django.db.Error: then the replica is due again when its lease has
    run out, and nothing was half done that the next probe would not do.
    """
    verdict = finding.verdict
    decision = step(
        target.state,
        counters,
        verdict,
        target.checks.probe,
        has_passed=target.has_passed,
        in_startup_budget=target.in_startup_budget,
        answering=verdict.timed_out and answering.is_answering(client, target.uid),
    )
    due_in_s = schedule.next_due_s(target.timing, finding.took_s, rng)
    counted = decision.counters
    if decision.changed and not _record(client, target, finding, decision):
        # It was changed by somebody else meanwhile: look again, from what is true now.
        counted, due_in_s = Counters(), schedule.FASTEST_S
    schedule.settle(
        client,
        target.uid,
        lease,
        due_in_s=due_in_s,
        counters=msgspec.json.encode(list(counted)).decode(),
        result=last.encode(latency_s=finding.took_s, passed=verdict.passed, answer=decision.reason),
        load=finding.load_now(),
    )
    return decision


def _record(client: "redis.Redis", target: Target, finding: Finding, decision: Step) -> bool:
    """False: the replica is gone, has another URL, or another state than the one judged from."""
    if not Replica.objects.filter(pk=target.replica_id, url=target.url).exists():
        return False
    return health_service.record_transition(
        target.replica_id,
        target.state,
        decision.state,
        decision.reason,
        decision.has_passed,
        starting=startup.starts(target.state, decision.state, finding.verdict),
        startup_s=_startup_s(client, target) if decision.state == "ready" else None,
    )


def _startup_s(client: "redis.Redis", target: Target) -> float | None:
    """How long the start of a replica took that has just become ready; None where nobody saw it begin."""
    before = last.read_of(client, [target.uid]).get(target.uid)
    return startup.took(
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
    except UNREADABLE:
        return Counters()
