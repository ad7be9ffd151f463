"""Each ejection and each return is told once."""

from controlplane.telemetry.merge import Merged, MergeState, ReceivedReport, merge
from controlplane.telemetry.notices import ejections
from controlplane.telemetry.notices.ejections import EjectionNotice, NotifiedEjections
from tests.controlplane.telemetry.reports import fleet, replica, report

REASON = "5 failures in a row"


def merged(ejected_for_s: float | None, count: int = 0, *, known: bool = True) -> Merged:
    numbers = replica(1, ejected_for_s=ejected_for_s, ejections=count, ejection_reason=REASON)
    sent = report(fleets=[fleet(replicas=[numbers] if known else [])])
    return merge(MergeState(), [ReceivedReport(sent, 0.1)], 0.0)


def tell(state: NotifiedEjections, what: Merged, now: float) -> list[EjectionNotice]:
    found = ejections.notices(state, what, now)
    for item in found:
        ejections.confirm(state, item, now)
    return found


def test_an_ejection_is_told_once_and_so_is_the_return() -> None:
    state = NotifiedEjections()
    assert tell(state, merged(None), 0.0) == []
    assert tell(state, merged(4.6, 1), 1.0) == [
        EjectionNotice("u1", True, "a is ejected: 5 failures in a row; probation in 5 s")
    ]
    assert tell(state, merged(3.6, 1), 2.0) == []
    assert tell(state, merged(0.0, 1), 6.0) == [], "on probation it is not back yet"
    assert tell(state, merged(None, 1), 7.0) == [EjectionNotice("u1", False, "a is no longer ejected")]
    assert tell(state, merged(None, 1), 8.0) == []


def test_news_that_could_not_be_written_are_told_again() -> None:
    state = NotifiedEjections()
    assert ejections.notices(state, merged(5.0, 1), 0.0)
    assert ejections.notices(state, merged(4.0, 1), 1.0)


def test_a_failed_probation_is_news_but_two_workers_noticing_it_are_one() -> None:
    state = NotifiedEjections()
    tell(state, merged(5.0, 1), 0.0)
    tell(state, merged(0.0, 1), 5.0)
    again = tell(state, merged(9.8, 2), 6.0)
    assert [item.text for item in again] == ["a is ejected again: 5 failures in a row; probation in 10 s"]
    assert tell(state, merged(8.8, 3), 7.0) == []


def test_when_no_worker_reports_it_what_was_told_stands() -> None:
    state = NotifiedEjections()
    tell(state, merged(5.0, 1), 0.0)
    assert tell(state, merged(None, known=False), 6.0) == []
    assert tell(state, merged(None, 1), 7.0) == [EjectionNotice("u1", False, "a is no longer ejected")]


def test_an_ejection_that_a_former_leader_told_is_not_told_again() -> None:
    state = NotifiedEjections(notified={"u1"})
    assert tell(state, merged(3.0, 1), 0.0) == []
    assert [item.ejected for item in tell(state, merged(None, 1), 4.0)] == [False]
