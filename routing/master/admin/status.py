"""Status page (``/status``), its rows: workers, and replicas as all workers see them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from routing.contract.learned_service import combined_scale
from routing.contract.moving import stays_in_words
from routing.contract.table import FleetSnapshot
from routing.contract.telemetry import FleetCounters, LearnedScale, ReplicaCounters
from routing.ipc.control_channel import ReplicaState
from routing.master.admin.emergency_drain import EmergencyDrain
from routing.master.admin.kv_event_status import KvEventStatus, kv_event_row
from routing.master.admin.metrics import WorkerStatus
from routing.master.admin.prediction_metrics import prediction_row

Answers = Sequence[dict[str, list[ReplicaState]] | None]
"""For each worker: fleet → its replicas; ``None``: the worker did not reply."""


def worker_rows(workers: list[WorkerStatus], manifests: list[str | None]) -> list[dict[str, Any]]:
    """One row for each worker. The values of its report are at most a second old."""
    return [_worker_row(worker, manifest) for worker, manifest in zip(workers, manifests, strict=True)]


def _worker_row(worker: WorkerStatus, manifest: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "worker": worker.number,
        "pid": worker.pid,
        "serving": worker.up,
        "restarts": worker.restarts,
        "manifest": manifest,
    }
    report = worker.report
    if report is not None:
        row |= {
            "name": report.worker,
            "redis_ok": report.redis_ok,
            "table_age_s": round(report.table_age_s, 3),
            "limits_shared_by": report.limits_shared_by,
            "compiled": report.compiled,
            "uptime_s": round(report.uptime_s, 3),
            "cpu_s": round(report.cpu_s, 3),
            "client_connections": report.clients,
            "upstream_connections": report.upstreams,
            "max_client_connections": report.max_clients,
            "refused_connections": report.refused_clients,
            "evicted_connections": report.evicted_clients,
            "gave_way": report.gave_way,
            "body_bytes": report.body_bytes,
            "max_body_bytes": report.max_body_bytes,
            "open_fds": report.open_fds,
            "max_fds": report.max_fds,
            "short_of": report.short_of,
            "installation": report.installation,
            "refused_manifest": report.refused_manifest,
            "refused_tables": {fleet.name: fleet.refused for fleet in report.fleets if fleet.refused},
        }
    return row


def fallback_rows(snapshot: FleetSnapshot, counted: FleetCounters | None) -> list[dict[str, Any]]:
    """One row for each fleet to which its requests may go, in order, and each to which they went before its
    policy was changed. ``counted``: all workers', ``None`` if there is none."""
    went = {} if counted is None else counted.fallbacks
    listed = {entry.fleet: [str(cause) for cause in entry.causes] for entry in snapshot.policy.fallback}
    return [{"fleet": to, "causes": listed.get(to, []), "requests": went.get(to, {})} for to in listed | went]


def learned_rows(fleet: str, workers: list[WorkerStatus]) -> list[dict[str, Any]]:
    """What each worker has learned of a fleet's requests, for its estimates; at most a second old."""
    return [
        {
            "worker": worker.number,
            "usual_work": round(one.usual_work, 3),
            "usual_s": round(one.usual_s, 6),
            "answer_tokens": round(one.answer_tokens, 1),
            "estimates_explain": None if one.estimates_explain is None else round(one.estimates_explain, 3),
            "estimates_corrected": one.estimates_corrected,
            "growth": round(one.growth, 3),
            "growth_error": round(one.growth_error, 3),
            "growth_evidence": round(one.growth_evidence, 3),
            "batching": round(one.batching, 3),
            **prediction_row(one),
            "picked_in_time": one.picked_in_time,
            "first_token_limit_s": None
            if one.first_token_limit_s is None
            else round(one.first_token_limit_s, 3),
            "second_attempts": one.second_attempts,
            "not_sent_twice": one.not_sent_twice,
        }
        for worker in workers
        if worker.report is not None
        for one in worker.report.fleets
        if one.name == fleet
    ]


def replica_rows(
    fleet: str,
    snapshot: FleetSnapshot,
    answers: Answers,
    workers: list[WorkerStatus],
    drains: Sequence[EmergencyDrain],
    now: float,
    kv_events: Mapping[tuple[str, str], KvEventStatus],
) -> list[dict[str, Any]]:
    """One row for each replica: in how many workers it is eligible, why not in the others, and how many
    workers send it requests, and how fast it is, as they have learned it. ``kv_events``: by fleet and
    replica."""
    expiry = {drained.replica: drained.expires_at for drained in drains if drained.fleet == fleet}
    reported = _reported(fleet, workers)
    rows = []
    for spec in snapshot.replicas:
        seen = _states(fleet, spec.name, answers)
        own = reported.get(spec.uid, ())
        heard = kv_events.get((fleet, spec.name))
        reasons = [reason for state in seen for reason in state.reasons]
        left_s = expiry[spec.name] - now if spec.name in expiry else None
        if left_s is not None:
            reasons.append(f"emergency drain at this proxy, for another {left_s:.0f} s")
        rows.append(
            {
                "replica": spec.name,
                "url": spec.url,
                "site": spec.site,
                "weight": spec.weight,
                "admin_state": spec.admin_state,
                "health": spec.health,
                "startup_s": None if spec.startup_s is None else round(spec.startup_s, 3),
                "eligible": bool(seen) and all(state.eligible for state in seen),
                "eligible_in_workers": sum(state.eligible for state in seen),
                "asked_in_workers": sum(state.asked for state in seen),
                "drained_by_hand_for_s": None if left_s is None else round(left_s),
                "reasons": list(dict.fromkeys(reasons)),
                "in_flight": sum(state.in_flight for state in seen),
                "learned": _learned([one.learned for one in own if one.learned is not None]),
                "continuation": _continuation(own),
                "move": spec.move,
                "moving": _moving(own),
                "kv_events": None if heard is None else kv_event_row(heard),
            }
        )
    return rows


def _reported(fleet: str, workers: list[WorkerStatus]) -> dict[str, list[ReplicaCounters]]:
    """What each worker has reported of the fleet's replicas, by the replica's uid."""
    found: dict[str, list[ReplicaCounters]] = {}
    for worker in workers:
        for one in worker.report.fleets if worker.report is not None else ():
            if one.name == fleet:
                for replica in one.replicas:
                    found.setdefault(replica.uid, []).append(replica)
    return found


def _continuation(reported: Sequence[ReplicaCounters]) -> str:
    """What the last trial has shown, in the words of the workers that have made one."""
    return "; ".join(sorted({one.continuation for one in reported if one.continuation}))


def _moving(reported: Sequence[ReplicaCounters]) -> dict[str, Any]:
    """What could be moved to other replicas, and what was since this one is to be free, of all workers."""
    staying: Counter[str] = Counter()
    for one in reported:
        staying.update(one.staying)
    return {
        "movable": sum(one.movable for one in reported),
        "movable_prompt_tokens": sum(one.movable_prompt_tokens for one in reported),
        "staying": dict(staying),
        "stays": stays_in_words(staying),
        "moved": sum(one.moved for one in reported),
        "moved_prompt_tokens": sum(one.moved_prompt_tokens for one in reported),
    }


def _learned(scales: Sequence[LearnedScale]) -> dict[str, float] | None:
    scale = combined_scale(scales)
    if scale is None:
        return None
    return {
        "times_usual": round(scale.times_usual, 3),
        "error": round(scale.error, 3),
        "request_s": round(scale.request_s, 6),
        "requests": round(scale.requests, 1),
    }


def _states(fleet: str, replica: str, answers: Answers) -> list[ReplicaState]:
    return [
        state
        for answer in answers
        if answer is not None
        for state in answer.get(fleet, ())
        if state.name == replica
    ]
