"""Presenters: rows as the API answers them. ``serializers/`` documents the shapes; a test compares both."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from django.db.models import Count
from redis.exceptions import RedisError

from controlplane.api import startup_eta
from controlplane.api.live import LiveReplica, LiveReplicas, last_reasons
from controlplane.datastores.availability import write_refusal
from controlplane.datastores.redis_gate import gate
from controlplane.models import Fleet, HardwareClass, PolicyRevision, Replica, ReplicaHealth
from controlplane.publishing import publisher
from controlplane.publishing.snapshots import current_state
from controlplane.services import effective_settings
from controlplane.services.changes import Change
from controlplane.services.hardware import HardwareChange
from controlplane.services.replicas import described
from controlplane.telemetry import emergency_drain_text
from controlplane.telemetry.frames import LearnedLive, ReplicaLive
from routing.contract.flap_damping import FlapPenalty
from routing.contract.table import Version

REDIS_AWAY = "Redis does not answer; proxies get the change within seconds of its return."
REDIS_REFUSES = "Redis is {words}; proxies get the change within seconds of its taking writes again. {cure}"


def fleets(rows: Iterable[Fleet]) -> list[dict[str, Any]]:
    """Two queries for all of them."""
    rows = list(rows)
    epoch = current_state().epoch
    states = _health_states(rows)
    return [_fleet(row, epoch, states.get(row.pk, {})) for row in rows]


def fleet(row: Fleet) -> dict[str, Any]:
    return fleets([row])[0]


def _fleet(row: Fleet, epoch: int, states: Mapping[str, int]) -> dict[str, Any]:
    policy = effective_settings.policy_of(row.policy)
    return {
        "name": row.name,
        "protocol": row.protocol,
        "aliases": row.aliases,
        "adapters": row.adapters,
        "match": [{"host": "", "path_prefix": "", **match} for match in row.match],
        "served_model": row.served_model,
        "expose": row.expose,
        "credential": row.credential,
        "labels": row.labels,
        "default": row.is_default,
        "strategy": policy.strategy,
        "probe": effective_settings.effective(effective_settings.probe_of(row.probe)),
        "tls": effective_settings.effective(effective_settings.tls_of(row.tls)),
        "revision": row.revision,
        "table_version": str(Version(epoch, row.table_version)),
        "replicas": sum(states.values()),
        "health": dict(states),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _health_states(rows: list[Fleet]) -> dict[int, dict[str, int]]:
    """Fleet → health → number of replicas."""
    counted = (
        Replica.objects.filter(fleet__in=rows)
        .order_by()
        .values_list("fleet_id", "health__state")
        .annotate(number=Count("pk"))
    )
    states: dict[int, dict[str, int]] = {}
    for fleet_id, state, number in counted:
        states.setdefault(fleet_id, {})[state or "checking"] = number
    return states


def policy(row: Fleet) -> dict[str, Any]:
    return {
        "fleet": row.name,
        "revision": row.revision,
        "policy": effective_settings.effective(effective_settings.policy_of(row.policy)),
        "set": row.policy,
    }


def revisions(rows: Iterable[PolicyRevision]) -> list[dict[str, Any]]:
    return [
        {
            "number": row.number,
            "policy": effective_settings.effective(effective_settings.policy_of(row.policy)),
            "weights": row.weights,
            "actor": row.actor,
            "summary": row.summary,
            "created_at": row.created_at,
        }
        for row in rows
    ]


def replicas(rows: Iterable[Replica], live: LiveReplicas) -> list[dict[str, Any]]:
    """At most one question to Redis for all of them."""
    rows = list(rows)
    reasons = last_reasons(rows)
    expected = startup_eta.expected(rows)
    found = []
    for row in rows:
        start, reason = expected.get(row.pk), reasons.get(str(row.uid))
        answer = _replica(row, live.seen.get(row.name), reason, start)
        if live.missing:
            answer["why"] = f"{answer['why']}; {live.missing}"
        found.append(answer)
    return found


def replica(row: Replica, live: LiveReplicas) -> dict[str, Any]:
    return replicas([row], live)[0]


def _replica(
    row: Replica, seen: LiveReplica | None, last_reason: str | None, start: startup_eta.StartupEta | None
) -> dict[str, Any]:
    health = getattr(row, "health", None)
    reason = last_reason or (health.reason if health else "not probed yet")
    live = seen.live if seen else None
    eligible, why = _eligibility(row, live, f"{reason}; {start.words}" if start else reason)
    return {
        "name": row.name,
        "uid": str(row.uid),
        **described(row),
        "effective_weight": row.effective_weight,
        "health": {
            "state": health.state if health else "checking",
            "reason": reason,
            "has_passed": health.has_passed if health else False,
            "since": health.since if health else row.created_at,
            "startup_s": health.startup_s if health else None,
            "flap_penalty": round(_penalty(health), 2) if health else 0.0,
            "expected_in_s": start.left_s if start else None,
        },
        "ejected": live.ejected if live else None,
        "eligible": eligible,
        "why": why,
        "drained_by_hand": [
            {"proxy": place.proxy, "expires_in_s": round(place.expires_in_s)}
            for place in (live.drained_by_hand if live else [])
        ],
        "in_flight": live.in_flight if live else None,
        "moving": msgspec.to_builtins(live.moving) if live else None,
        "learned": _learned(live.learned) if live and live.learned else None,
        "managed_by": _owner(row),
        "safe_to_stop": seen.safe_to_stop and row.admin_state == seen.live.admin_state if seen else None,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _owner(row: Replica) -> dict[str, Any] | None:
    """The source that put it there; ``None``: it is people's."""
    owner = getattr(row, "owner", None)
    if owner is None:
        return None
    return {
        "source": owner.source.name,
        "kind": owner.source.kind,
        "missing_since": owner.missing_since,
        "drained_at": owner.drained_at,
    }


def _penalty(health: ReplicaHealth) -> float:
    if health.lost_at is None:
        return 0.0
    return FlapPenalty(health.flap_penalty, health.lost_at.timestamp()).now(time.time())


def _learned(scale: LearnedLive) -> dict[str, float | bool]:
    return {
        "times_usual": round(scale.times_usual, 3),
        "error": round(scale.error, 3),
        "request_s": round(scale.request_s, 6),
        "requests": round(scale.requests, 1),
        "is_known": scale.is_known,
    }


def _eligibility(row: Replica, live: ReplicaLive | None, reason: str) -> tuple[bool, str]:
    """Whether admin state, health and ejection all allow it, and which of them does not. ``reason``: of its
    health."""
    health = getattr(row, "health", None)
    state = health.state if health else "checking"
    reasons = []
    if row.admin_state != Replica.AdminStateChoice.ACTIVE:
        reasons.append(f"admin state is {row.admin_state}")
    if state != "ready":
        reasons.append(f"health is {state}: {reason}")
    if live is not None and live.ejected:
        # Beside other states the text has more, and this part of it begins with the word.
        why = live.why if live.state == "ejected" else live.why.partition("ejected: ")[2]
        reasons.append(f"ejected: {why}" if why else "ejected because of failures in live traffic")
    eligible = not reasons
    if live is not None:
        eligible = eligible and not (live.drained_everywhere or live.locked_out)
        reports = (
            emergency_drain_text.words(live.drained_by_hand, live.drained_everywhere),
            live.no_credential,
        )
        reasons += [words for words in reports if words]
    if row.effective_weight == 0:
        reasons.append("weight 0: gets no new requests")
    if live is not None:
        reasons += [words for words in (live.doubt, live.memory_short) if words]
    return eligible, "; ".join(reasons) or "admin state, health and ejection all allow it"


def hardware_classes(rows: Iterable[HardwareClass]) -> list[dict[str, Any]]:
    """One query for the replicas of all of them."""
    rows = list(rows)
    used = Replica.objects.filter(hardware__in=rows).order_by().values_list("hardware_id")
    replicas = dict(used.annotate(number=Count("pk")))
    return [
        {
            "name": row.name,
            "weight": row.weight,
            "replicas": replicas.get(row.pk, 0),
            "created_at": row.created_at,
        }
        for row in rows
    ]


def hardware(row: HardwareClass) -> dict[str, Any]:
    return hardware_classes([row])[0]


def publication(published: bool) -> dict[str, Any]:
    """Whether Redis has a change, and why not."""
    if published:
        return {"published": True}
    return {"published": False, "not_published": gate.words or _redis_words()}


def _redis_words() -> str:
    try:
        refused = write_refusal()
    except RedisError:
        refused = None
    return REDIS_REFUSES.format(words=refused.words, cure=refused.cure) if refused else REDIS_AWAY


def outcome(change: Change, wait_s: float) -> dict[str, Any]:
    """What became of a write: which version carries it, and how many proxy workers have it."""
    wait_s = wait_s if change.published and change.lines else 0.0
    workers = publisher.acknowledged(change.fleet.name, change.version, wait_s)
    return {
        "changed": list(change.lines),
        "revision": change.revision,
        "table_version": str(change.version),
        **publication(change.published),
        "workers": workers._asdict(),
    }


def hardware_outcome(change: HardwareChange, wait_s: float) -> dict[str, Any]:
    """As :func:`outcome`, of every fleet that the weight reaches; all of them within ``wait_s``."""
    ends = time.monotonic() + (wait_s if change.published and change.lines else 0.0)
    return {
        "changed": list(change.lines),
        **publication(change.published),
        "fleets": [
            {
                "name": name,
                "table_version": str(version),
                "workers": publisher.acknowledged(name, version, max(ends - time.monotonic(), 0))._asdict(),
            }
            for name, version in change.versions.items()
        ],
    }
