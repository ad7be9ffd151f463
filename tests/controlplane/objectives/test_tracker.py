"""Counting over real Redis and database: nothing twice, nothing lost when who counts changes."""

from typing import Any

import pytest

from controlplane.models import Fleet, ObjectiveCount
from controlplane.objectives import published
from controlplane.objectives.burn_rate import ObjectiveStatus
from controlplane.objectives.tracker import ObjectiveTracker, read_promises
from controlplane.services import policies
from tests.controlplane.objectives.test_counting import heard

NOW = 1_800_000_000.0
SLO = {"availability_percent": 99.0, "latency_s": 2.0, "percentile": 95.0}


@pytest.fixture(autouse=True)
def promised(fresh_stores: None, llm: str) -> str:
    policies.change(llm, {"slo": SLO}, "tests")
    return llm


def follow(tracker: ObjectiveTracker, served: int, errors: int, after_s: float) -> ObjectiveStatus:
    """How success stands once so many requests have ended in all."""
    (fleet,) = tracker.follow([heard(served, errors)], read_promises(), NOW + after_s)
    assert [one.target.kind for one in fleet.objectives] == ["success", "latency"]
    return fleet.objectives[0]


def counted(status: ObjectiveStatus) -> tuple[int, int]:
    return status.whole.good, status.whole.total


def test_what_a_policy_promises_is_read() -> None:
    (one,) = read_promises()
    assert [target.words for target in one.targets] == [
        "99 % of requests do not fail",
        "95 % of requests served within 2 s",
    ]
    Fleet.objects.update(policy={})
    assert read_promises() == []


def test_another_who_counts_goes_on_where_the_last_one_stopped() -> None:
    first, second = ObjectiveTracker(), ObjectiveTracker()
    follow(first, 1000, 0, 0)
    assert counted(follow(first, 1100, 5, 10)) == (100, 105)
    follow(first, 1150, 5, 15)  # not kept yet: the next one counts it
    assert counted(follow(second, 1200, 10, 20)) == (200, 210)
    assert counted(follow(second, 1300, 10, 25)) == (300, 310)
    assert counted(follow(first, 1400, 10, 40)) in ((400, 410), (300, 310)), "the first one reads anew"


def test_an_emptied_redis_costs_nothing_while_somebody_counts(redis_client: Any) -> None:
    tracker = ObjectiveTracker()
    follow(tracker, 1000, 0, 0)
    follow(tracker, 1100, 0, 10)
    redis_client.flushdb()
    assert counted(follow(tracker, 1200, 0, 20)) == (200, 200)


def test_five_minutes_are_kept_in_the_database_and_read_again(redis_client: Any) -> None:
    tracker = ObjectiveTracker()
    follow(tracker, 1000, 0, 0)
    for step in range(1, 70):
        follow(tracker, 1000 + 10 * step, step, 10 * step)
    rows = ObjectiveCount.objects.order_by("at")
    assert rows.count() == 2
    kept = sum(row.counts["success"][1] for row in rows)
    assert kept == pytest.approx(11 * 60, abs=22)
    redis_client.flushdb()  # and whoever counted is gone
    assert counted(follow(ObjectiveTracker(), 5000, 0, 800)) == (
        sum(row.counts["success"][0] for row in rows),
        kept,
    )


def test_another_limit_begins_anew_and_success_goes_on(promised: str) -> None:
    tracker = ObjectiveTracker()
    follow(tracker, 1000, 0, 0)
    follow(tracker, 1200, 0, 10)
    policies.change(promised, {"slo": {**SLO, "latency_s": 1.0}}, "tests")
    assert counted(follow(tracker, 1300, 0, 20)) == (300, 300)


def test_pages_and_api_read_what_was_counted_last(redis_client: Any, api: Any, promised: str) -> None:
    assert api.get(f"/fleets/{promised}/objectives").json() == {"at": None, "objectives": []}
    tracker = ObjectiveTracker()
    follow(tracker, 1000, 0, 0)
    follow(tracker, 1500, 500, 10)
    success, latency = api.get(f"/fleets/{promised}/objectives").json()["objectives"]
    assert (success["requests"], success["bad"], success["attained_percent"]) == (1000, 500, 50.0)
    assert (success["budget_left_percent"], success["burn"]["5m"], success["burning"]) == (
        -4900.0,
        50.0,
        None,
    )
    assert (latency["requests"], latency["attained_percent"], latency["within_s"]) == (0, None, 2.0)
    assert published.read(redis_client, promised) is not None
