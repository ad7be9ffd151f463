"""What the dispatcher asks of its notifiers, and in which order."""

from typing import Any, cast

import pytest
import redis
from django.db import OperationalError

from controlplane.models import Event
from controlplane.telemetry.merge import MergeState, merge
from controlplane.telemetry.merged_numbers import Merged
from controlplane.telemetry.notices import dispatcher, event_log
from controlplane.telemetry.notices.dispatcher import NoticeDispatcher
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed

calls: list[str] = []


class Scripted(Notifier[str]):
    """Has one notice until it is confirmed."""

    name = ""

    def __init__(self) -> None:
        self.confirmed = False

    def restore(self, handover: LeaderHandover) -> None:
        calls.append(f"{self.name} restored")

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        calls.append(f"{self.name} asked")
        return [] if self.confirmed else [Notice("key", True, Event.Kind.SYSTEM, self.name)]

    def confirm(self, notice: Notice[str], now: float) -> None:
        calls.append(f"{self.name} confirmed")
        self.confirmed = True

    def save(self, handover: LeaderHandover) -> None:
        calls.append(f"{self.name} saved")


class One(Scripted):
    name = "one"


class Two(Scripted):
    name = "two"


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls.clear()
    monkeypatch.setattr(event_log, "record", lambda notice: calls.append(f"{notice.text} written"))
    return calls


def send(notices: NoticeDispatcher, *, may_write: bool = True) -> list[str]:
    calls.clear()
    merged: Merged = merge(MergeState(), [], 0.0)
    client = cast("redis.Redis", None)
    notices.send(Observed(merged), lambda now: LeaderHandover(client, now, 0), lambda: may_write)
    return list(calls)


def test_each_kind_is_restored_asked_written_confirmed_and_saved_in_its_turn() -> None:
    notices = NoticeDispatcher(lambda: 0.0, [One, Two])
    steps = ("restored", "asked", "written", "confirmed", "saved")
    assert send(notices) == [f"{name} {step}" for name in ("one", "two") for step in steps]
    assert send(notices) == ["one asked", "one saved", "two asked", "two saved"]


def test_what_could_not_be_written_is_not_confirmed_and_ends_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(notice: Notice[Any]) -> None:
        raise OperationalError("the server closed the connection")

    notices = NoticeDispatcher(lambda: 0.0, [One, Two])
    with monkeypatch.context() as broken:
        broken.setattr(event_log, "record", away)
        with pytest.raises(OperationalError):
            send(notices)
    assert calls == ["one restored", "one asked"]
    assert send(notices)[:3] == ["one asked", "one written", "one confirmed"]


def test_who_leads_again_restores_again() -> None:
    notices = NoticeDispatcher(lambda: 0.0, [One])
    send(notices)
    notices.forget()
    assert send(notices)[:3] == ["one restored", "one asked", "one written"]


def test_ejections_that_may_not_be_written_hold_back_all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "EjectionNotifier", One)
    notices = NoticeDispatcher(lambda: 0.0, [One, Two])
    assert send(notices, may_write=False) == ["one restored", "one asked"]
    assert send(notices)[-1] == "two saved"


def test_other_kinds_do_not_ask_whether_they_may() -> None:
    assert "two saved" in send(NoticeDispatcher(lambda: 0.0, [One, Two]), may_write=False)
