"""Store: open alerts, silences and what was told as rows; and what an evaluation decided, written at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from controlplane.alerts.grouping import Audience, DueMessage, GroupKey, GroupTiming, Told
from controlplane.alerts.lifecycle import AlertChange, AlertStep, OpenAlert
from controlplane.alerts.message import AlertMessage, ToldAlert, message_of
from controlplane.alerts.picture import FailingDestination
from controlplane.alerts.rule_types import AlertSubject, RuleInForce, Severity
from controlplane.alerts.silencing import Silenced
from controlplane.models import (
    Alert,
    AlertDelivery,
    AlertDestination,
    AlertSilence,
    AlertTold,
    Event,
    Fleet,
    Replica,
)
from controlplane.services.unit_of_work import UnitOfWork
from controlplane.telemetry import durations

ACTOR = "alerts"
AM_TIMING = GroupTiming(wait_s=0.0, interval_s=0.0, repeat_s=60.0)
"""Alertmanager groups and repeats by itself, and wants to hear again and again what fires."""


@dataclass(frozen=True, slots=True)
class ToldDestination:
    """One destination that is told."""

    id: int
    audience: Audience
    told: Mapping[GroupKey, Told] = field(default_factory=dict)
    busy: frozenset[GroupKey] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredAlerts:
    """What the database knows of alerts."""

    alerts: Sequence[OpenAlert]
    silences: Sequence[Silenced]
    listeners: Sequence[ToldDestination]
    failing: Sequence[FailingDestination]


def load() -> StoredAlerts:
    """Five queries. Raises django.db.Error."""
    told: dict[int, dict[GroupKey, Told]] = {}
    for row in AlertTold.objects.all():
        key = GroupKey(row.rule, row.fleet_name)
        told.setdefault(row.destination_id, {})[key] = Told(row.at.timestamp(), row.severities)
    waiting = AlertDelivery.objects.filter(done_at=None)
    busy: dict[int, set[GroupKey]] = {}
    for destination, rule, fleet in waiting.values_list("destination_id", "rule", "fleet_name"):
        busy.setdefault(destination, set()).add(GroupKey(rule, fleet))
    destinations = list(AlertDestination.objects.filter(enabled=True))
    return StoredAlerts(
        [open_alert(row) for row in Alert.objects.filter(resolved_at=None)],
        silences(),
        [
            ToldDestination(row.pk, audience_of(row), told.get(row.pk, {}), frozenset(busy.get(row.pk, ())))
            for row in destinations
        ],
        [
            FailingDestination(row.name, row.last_answer or "there was no answer")
            for row in destinations
            if row.failing_since is not None
        ],
    )


def silences() -> list[Silenced]:
    """Those that have not ended when they were read."""
    rows = AlertSilence.objects.filter(ends_at__gt=datetime.now(UTC))
    return [
        Silenced(row.pk, row.ends_at.timestamp(), row.rule, row.fleet_name, row.replica_name, row.part)
        for row in rows
    ]


def audience_of(row: AlertDestination) -> Audience:
    timing = (
        AM_TIMING
        if row.kind == AlertDestination.DestinationKind.ALERTMANAGER
        else GroupTiming(repeat_s=row.repeat_s)
    )
    return Audience(timing, row.only_critical, frozenset(row.fleets))


def open_alert(row: Alert) -> OpenAlert:
    return OpenAlert(
        id=row.uid,
        rule=row.rule,
        subject=AlertSubject(row.fleet_name, row.replica_name, row.part),
        severity=cast(Severity, row.severity),
        words=row.words,
        value=row.value,
        since=row.since.timestamp(),
        fired_at=_seconds(row.fired_at),
        gone_since=_seconds(row.gone_since),
        worded_at=row.worded_at.timestamp(),
    )


def write_changes(
    write: UnitOfWork, changes: Iterable[AlertChange], rules: Mapping[str, RuleInForce], now: float
) -> None:
    """Rows of the alerts, and a line of the timeline for each that begins to fire or is over."""
    at = _moment(now)
    for change in changes:
        alert = change.alert
        if change.step is AlertStep.BEGAN:
            rule = rules[alert.rule]
            names = {"title": rule.title[:200], "unit": rule.unit, "uid": alert.id, "rule": alert.rule}
            subject = alert.subject
            where = {"fleet_name": subject.fleet, "replica_name": subject.replica, "part": subject.part}
            Alert.objects.create(**names, **where, since=_moment(alert.since), **_columns(alert))
        elif change.step is AlertStep.DROPPED:
            Alert.objects.filter(uid=alert.id).delete()
        elif change.step is AlertStep.RESOLVED:
            Alert.objects.filter(uid=alert.id).update(
                state=Alert.AlertState.RESOLVED, resolved_at=at, resolved_words=change.words
            )
        else:
            Alert.objects.filter(uid=alert.id).update(**_columns(alert))
        if change.step in (AlertStep.FIRED, AlertStep.RESOLVED):
            _write_event(write, change, rules, now)


def write_message(listener: ToldDestination, due: DueMessage, id: str, now: float, url: str | None) -> None:
    """The outbox's row, and that the destination has been told by it."""
    at = _moment(now)
    ids = [*(one.id for one in due.firing), *due.resolved]
    rows = {row.uid: row for row in Alert.objects.filter(uid__in=ids)}
    firing = [told_alert(rows[one.id], "firing") for one in due.firing if one.id in rows]
    # One that retention has deleted meanwhile was over long ago.
    resolved = [told_alert(rows[uid], "resolved") for uid in due.resolved if uid in rows]
    where: dict[str, Any] = {
        "destination_id": listener.id,
        "rule": due.group.rule,
        "fleet_name": due.group.fleet,
    }
    if firing or resolved:
        first = rows[ids[0]] if ids[0] in rows else next(iter(rows.values()))
        message = message_of(id, due.group, first.title, first.unit, firing, resolved, url)
        body = msgspec.to_builtins(message)
        AlertDelivery.objects.create(**where, uid=id, message=body, created_at=at, due_at=at)
    if due.told.severities:
        values = {"severities": dict(due.told.severities), "at": at}
        AlertTold.objects.update_or_create(**where, defaults=values)
    else:
        AlertTold.objects.filter(**where).delete()


def told_alert(row: Alert, status: str) -> ToldAlert:
    return ToldAlert(
        id=row.uid,
        status="resolved" if status == "resolved" else "firing",
        severity=cast(Severity, row.severity),
        fleet=row.fleet_name or None,
        replica=row.replica_name or None,
        part=row.part or None,
        why=row.words,
        value=row.value,
        since=_written(row.since),
        fired_at=_written(row.fired_at or row.since),
        resolved_at=_written(row.resolved_at) if row.resolved_at else None,
    )


def message_in(row: AlertDelivery) -> AlertMessage:
    return msgspec.convert(row.message, type=AlertMessage)


def _columns(alert: OpenAlert) -> dict[str, object]:
    """What changes of an alert while it is open."""
    return {
        "state": Alert.AlertState.FIRING if alert.is_firing else Alert.AlertState.PENDING,
        "severity": alert.severity,
        "words": alert.words[:400],
        "value": alert.value,
        "fired_at": _maybe(alert.fired_at),
        "gone_since": _maybe(alert.gone_since),
        "worded_at": _moment(alert.worded_at),
    }


def _write_event(
    write: UnitOfWork, change: AlertChange, rules: Mapping[str, RuleInForce], now: float
) -> None:
    alert, rule = change.alert, rules.get(change.alert.rule)
    title = rule.title if rule is not None else alert.rule
    subject = alert.subject
    fleet = Fleet.objects.filter(name=subject.fleet).first() if subject.fleet else None
    replica = Replica.objects.filter(fleet=fleet, name=subject.replica).first() if fleet else None
    where = "" if subject.fleet else f" ({subject.part})"
    if change.step is AlertStep.FIRED:
        state, text = "firing", f"{title}{where}: {alert.words}"
    else:
        lasted = durations.words(max(now - alert.since, 1.0))
        why = f"; {change.words}" if change.words else ""
        state, text = "resolved", f"{title}{where}: over after {lasted}{why}"
    write.event(
        Event.Kind.ALERT,
        text,
        fleet=fleet or subject.fleet or None,
        replica=replica or subject.replica or None,
        state=state,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
