"""Silences: making one, with an end and a reason, and ending it before its time."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.alerts import live_counts, rule_book
from controlplane.models import AlertSilence, Event
from controlplane.services.errors import NotFound
from controlplane.services.unit_of_work import UnitOfWork, unit_of_work
from controlplane.services.validation import accepted, unknown_name
from controlplane.telemetry import durations
from routing.contract.field_rules import FieldProblem, Problems, Section, Text, seconds

LONGEST_S = 30 * 86400.0
NO_END = "until when: give duration_s, seconds from now"


def _text(most: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if len(text) > most or not text.isprintable():
            raise ValueError(f"must be at most {most} printable characters")
        return text.strip()

    return check


SILENCE = Section(
    words="a silence",
    what="a silence",
    fields={
        "rule": Text(words="the rule whose alerts it silences", check=_text(63)),
        "fleet": Text(words="the fleet", check=_text(63)),
        "replica": Text(words="the replica", check=_text(63)),
        "part": Text(words="the part of Switchyard", check=_text(200)),
        "reason": Text(words="why", check=_text(300), required='"rack move until 14:00"'),
        "duration_s": seconds("how long it lasts", 60, LONGEST_S),
    },
)


def create(settings: Mapping[str, Any], actor: str) -> AlertSilence:
    """Raises Invalid."""
    problems: Problems = []
    kept = SILENCE.read_fields(settings, "", problems)
    accepted((kept, problems), _further(kept))
    with unit_of_work(actor) as write:
        row = AlertSilence.objects.create(
            rule=kept.get("rule", ""),
            fleet_name=kept.get("fleet", ""),
            replica_name=kept.get("replica", ""),
            part=kept.get("part", ""),
            reason=kept["reason"],
            created_by=actor,
            ends_at=timezone.now() + timedelta(seconds=kept["duration_s"]),
        )
        lasts = durations.words(kept["duration_s"])
        _write_event(write, row, f"{actor} silenced {words_of(row)} for {lasts}: {row.reason}")
        write.audit("alert-silence.create", words_of(row), after={"reason": row.reason, "ends_at": _at(row)})
    live_counts.announce()
    return row


def end(id: int, actor: str) -> AlertSilence:
    """At once; what still fires is told. Raises NotFound: there is none, or it has ended."""
    with unit_of_work(actor) as write:
        row = silence_with(id)
        now = timezone.now()
        ended = AlertSilence.objects.filter(pk=row.pk, ends_at__gt=now).update(ends_at=now, ended_by=actor)
        if not ended:
            raise NotFound(f"Silence {id} has ended already.")
        _write_event(write, row, f"{actor} ended the silence of {words_of(row)}")
        write.audit("alert-silence.end", words_of(row), before={"reason": row.reason, "ends_at": _at(row)})
        row.refresh_from_db()
    live_counts.announce()
    return row


def silence_with(id: int) -> AlertSilence:
    row = AlertSilence.objects.filter(pk=id).first()
    if row is None:
        raise NotFound(f"There is no silence {id}.")
    return row


def words_of(row: AlertSilence) -> str:
    """``replica_out of llm/a``; ``all alerts``."""
    where = "/".join(filter(None, (row.fleet_name, row.replica_name))) or row.part
    return " of ".join(filter(None, (row.rule or "all alerts", where)))


def _further(kept: Mapping[str, Any]) -> list[FieldProblem]:
    """What one field says nothing of."""
    found = []
    if "reason" in kept and not kept["reason"]:
        found.append(FieldProblem("/reason", "say why, for whoever wonders at the silence"))
    if "duration_s" not in kept:
        found.append(FieldProblem("/duration_s", NO_END))
    if kept.get("replica") and not kept.get("fleet"):
        found.append(FieldProblem("/fleet", "of which fleet the replica is: give its name too"))
    names = [entry.rule.name for entry in rule_book.seen_entries()] if kept.get("rule") else []
    if kept.get("rule") and kept["rule"] not in names:
        found.append(FieldProblem("/rule", unknown_name("alert rule", kept["rule"], names)))
    return found


def _write_event(write: UnitOfWork, row: AlertSilence, text: str) -> None:
    write.event(Event.Kind.ALERT, text, fleet=row.fleet_name or None, replica=row.replica_name or None)


def _at(row: AlertSilence) -> str:
    return row.ends_at.isoformat(timespec="seconds")
