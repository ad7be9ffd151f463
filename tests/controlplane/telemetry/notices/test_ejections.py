"""Each ejection and each return is told once."""

import pytest

from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.notices.ejections import EjectionNotifier
from controlplane.telemetry.notices.notice import Notice, Observed, ReplicaSubject
from tests.controlplane.telemetry.reports import fleet, replica, report

REASON = "5 failures in a row"


def observed(ejected_for_s: float | None, count: int = 0, *, known: bool = True) -> Observed:
    numbers = replica(1, ejected_for_s=ejected_for_s, ejections=count, ejection_reason=REASON)
    sent = report(fleets=[fleet(replicas=[numbers] if known else [])])
    return Observed(merge(MergeState(), [ReceivedReport(sent, 0.1)], 0.0))


def tell(notifier: EjectionNotifier, seen: Observed, now: float) -> list[Notice[str]]:
    found = notifier.pending(seen, now)
    for notice in found:
        notifier.confirm(notice, now)
    return found


@pytest.fixture
def notifier() -> EjectionNotifier:
    return EjectionNotifier()


EJECTED = Notice(
    "u1",
    True,
    "ejection",
    "a is ejected: 5 failures in a row; probation in 5 s",
    ReplicaSubject("u1"),
    "ejected",
)
BACK = Notice("u1", False, "ejection", "a is no longer ejected", ReplicaSubject("u1"), "ready")


def test_an_ejection_is_told_once_and_so_is_the_return(notifier: EjectionNotifier) -> None:
    assert tell(notifier, observed(None), 0.0) == []
    assert tell(notifier, observed(4.6, 1), 1.0) == [EJECTED]
    assert tell(notifier, observed(3.6, 1), 2.0) == []
    assert tell(notifier, observed(0.0, 1), 6.0) == [], "on probation it is not back yet"
    assert tell(notifier, observed(None, 1), 7.0) == [BACK]
    assert tell(notifier, observed(None, 1), 8.0) == []


def test_news_that_could_not_be_written_are_told_again(notifier: EjectionNotifier) -> None:
    assert notifier.pending(observed(5.0, 1), 0.0)
    assert notifier.pending(observed(4.0, 1), 1.0)


def test_a_failed_probation_is_news_but_two_workers_noticing_it_are_one(notifier: EjectionNotifier) -> None:
    tell(notifier, observed(5.0, 1), 0.0)
    tell(notifier, observed(0.0, 1), 5.0)
    again = tell(notifier, observed(9.8, 2), 6.0)
    assert [notice.text for notice in again] == ["a is ejected again: 5 failures in a row; probation in 10 s"]
    assert tell(notifier, observed(8.8, 3), 7.0) == []


def test_when_no_worker_reports_it_what_was_told_stands(notifier: EjectionNotifier) -> None:
    tell(notifier, observed(5.0, 1), 0.0)
    assert tell(notifier, observed(None, known=False), 6.0) == []
    assert tell(notifier, observed(None, 1), 7.0) == [BACK]


def test_an_ejection_that_a_former_leader_told_is_not_told_again() -> None:
    notifier = EjectionNotifier(ejected={"u1"})
    assert tell(notifier, observed(3.0, 1), 0.0) == []
    assert [notice.begins for notice in tell(notifier, observed(None, 1), 4.0)] == [False]
