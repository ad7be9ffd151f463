"""A notice becomes one event; what the newest events say is a new leader's memory."""

import pytest

from controlplane.models import Event, Replica
from controlplane.services import fleets, replicas
from controlplane.telemetry.notices import event_log
from controlplane.telemetry.notices.notice import (
    FleetSubject,
    Notice,
    ReplicaNameSubject,
    ReplicaSubject,
    Subject,
)
from tests.conftest import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
LIMIT = Event.Kind.LIMIT


@pytest.fixture
def row(redis_server: RedisServer) -> Replica:
    fleets.create({"name": "digits", "protocol": "open-inference"}, "test")
    row = replicas.register("digits", {"name": "a", "url": "http://127.0.0.1:9"}, "test").replica
    Event.objects.all().delete()
    return row


def notice(subject: Subject | None, state: str = "") -> Notice[str]:
    return Notice("key", True, LIMIT, "something happened", subject, state)


def test_a_notice_stands_in_the_timeline_of_its_subject(row: Replica) -> None:
    for subject in (
        None,
        FleetSubject("digits"),
        ReplicaSubject(str(row.uid)),
        ReplicaNameSubject("digits", "a"),
    ):
        event_log.record(notice(subject, "refusing"))
    events = Event.objects.order_by("id")
    assert [(event.fleet_name, event.replica_name) for event in events] == [
        ("", ""),
        ("digits", ""),
        ("digits", "a"),
        ("digits", "a"),
    ]
    assert {(event.kind, event.state, event.text, event.actor) for event in events} == {
        (LIMIT, "refusing", "something happened", "conductor")
    }


def test_of_what_is_gone_nothing_is_written(row: Replica) -> None:
    for subject in (
        FleetSubject("gone"),
        ReplicaSubject("00000000-0000-0000-0000-000000000000"),
        ReplicaNameSubject("digits", "gone"),
    ):
        event_log.record(notice(subject))
    assert not Event.objects.exists()


def test_only_the_newest_event_of_each_says_what_goes_on(row: Replica) -> None:
    subject = FleetSubject("digits")

    def refusing() -> int:
        among = ["refusing", "ready"]
        return event_log.with_newest_state(LIMIT, "refusing", of="fleet", among=among).count()

    for state, found in (("refusing", 1), ("", 1), ("ready", 0), ("refusing", 1)):
        event_log.record(notice(subject, state))
        assert refusing() == found
    event_log.record(notice(subject, ""))
    assert event_log.with_newest_state(LIMIT, "refusing", of="fleet").count() == 0
