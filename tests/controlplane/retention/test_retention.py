"""Old events and audit entries go, in batches, oldest first; on whichever database the tests run."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.celery import app
from controlplane.models import (
    Alert,
    AlertDelivery,
    AlertSilence,
    ApiToken,
    AuditEntry,
    ClientKey,
    Event,
    Fleet,
    FleetHistory,
    ObjectiveCount,
    PolicyRevision,
)
from controlplane.retention.tasks import forget_old
from controlplane.services import retention

pytestmark = pytest.mark.django_db
LOGGER = "controlplane.retention.tasks"


def old_events(*ages_in_days: float) -> None:
    for age in ages_in_days:
        row = Event.objects.create(kind=Event.Kind.SYSTEM, text=f"{age} days old")
        Event.objects.filter(pk=row.pk).update(at=timezone.now() - timedelta(days=age))


def left() -> list[str]:
    return list(Event.objects.order_by("-at").values_list("text", flat=True))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the task itself logged: other threads of this process may log as well."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_older_rows_go_and_the_rest_stays(settings: LazySettings, caplog: pytest.LogCaptureFixture) -> None:
    settings.EVENTS_DAYS, settings.AUDIT_DAYS = 90, 365
    old_events(0, 89.9, 90.1, 400)
    for age in (100, 366):
        entry = AuditEntry.objects.create(actor="anna", verb="fleets.update", target=f"{age} days old")
        AuditEntry.objects.filter(pk=entry.pk).update(at=timezone.now() - timedelta(days=age))
    with caplog.at_level(logging.INFO, LOGGER):
        forget_old()
    assert left() == ["0 days old", "89.9 days old"]
    assert [entry.target for entry in AuditEntry.objects.all()] == ["100 days old"]
    assert told(caplog) == [
        "events older than 90 days: deleted 2",
        "audit entries older than 365 days: deleted 1",
    ]
    caplog.clear()
    forget_old()
    assert told(caplog) == []


def test_one_run_is_bounded_and_begins_with_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr(retention, "BATCHES", 2)
    old_events(101, 102, 103, 104, 105, 0)
    before = timezone.now() - timedelta(days=90)
    assert retention.forget(Event.objects.all(), before) == (4, False)
    assert left() == ["0 days old", "101 days old"]
    assert retention.forget(Event.objects.all(), before) == (1, True)
    assert left() == ["0 days old"]
    assert retention.forget(Event.objects.all(), before) == (0, True)


ALERTS = (Alert, AlertSilence, AlertDelivery, ObjectiveCount)


def test_a_database_that_refuses_is_told_and_the_other_table_is_still_done(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def refuses(rows: QuerySet[Any], before: object, column: str) -> retention.Forgotten:
        asked.append(rows.model)
        raise DatabaseError("disk is full")

    monkeypatch.setattr("controlplane.retention.tasks.forget", refuses)
    forget_old()
    assert asked == [Event, FleetHistory, AuditEntry, PolicyRevision, ClientKey, ApiToken, *ALERTS, Session]
    assert "old events stay until the next run: disk is full" in caplog.text


def test_sessions_that_expired_go(caplog: pytest.LogCaptureFixture) -> None:
    now = timezone.now()
    for key, ends in (("over", now - timedelta(minutes=1)), ("valid", now + timedelta(minutes=10))):
        Session.objects.create(session_key=key, session_data="", expire_date=ends)
    with caplog.at_level(logging.INFO, LOGGER):
        forget_old()
    assert [session.pk for session in Session.objects.all()] == ["valid"]
    assert told(caplog) == ["expired sessions: deleted 1"]


def test_old_revisions_go_but_not_the_one_in_force(
    settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AUDIT_DAYS = 365
    for name, in_force in (("changed", 3), ("as it was made", 1)):
        fleet = Fleet.objects.create(name=name, protocol="generic", revision=in_force)
        for number in range(1, in_force + 1):
            row = PolicyRevision.objects.create(fleet=fleet, number=number, policy={}, actor="anna")
            made = timezone.now() - timedelta(days=500 - 100 * number)
            PolicyRevision.objects.filter(pk=row.pk).update(created_at=made)
    with caplog.at_level(logging.INFO, LOGGER):
        forget_old()
    left = PolicyRevision.objects.values_list("fleet__name", "number")
    assert sorted(left) == [("as it was made", 1), ("changed", 2), ("changed", 3)]
    assert told(caplog) == ["policy revisions older than 365 days: deleted 1"]


def test_keys_go_when_they_were_revoked_long_ago(
    settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AUDIT_DAYS = 365
    fleet = Fleet.objects.create(name="f", protocol="generic")
    for name, revoked_days in (("in force", None), ("lately", 364), ("long ago", 366)):
        revoked = None if revoked_days is None else timezone.now() - timedelta(days=revoked_days)
        key = ClientKey.objects.create(
            name=name, key_hash=name, all_fleets=False, created_by="anna", revoked_at=revoked
        )
        key.fleets.add(fleet)
        ClientKey.objects.filter(pk=key.pk).update(created_at=timezone.now() - timedelta(days=1000))
    with caplog.at_level(logging.INFO, LOGGER):
        forget_old()
    assert sorted(key.name for key in ClientKey.objects.all()) == ["in force", "lately"]
    assert told(caplog) == ["revoked client keys older than 365 days: deleted 1"]


def test_beat_knows_it() -> None:
    app.loader.import_default_modules()
    (entry,) = [one for one in app.conf.beat_schedule.values() if one["task"] == forget_old.name]
    assert forget_old.name in app.tasks
    assert entry["schedule"].minute == {17}
