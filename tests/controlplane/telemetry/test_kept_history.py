"""Five-minute rows in the database: written once, made up for, pruned, and read with what is newer."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Fleet, FleetHistory
from controlplane.retention.tasks import forget_old
from controlplane.telemetry import tasks
from controlplane.telemetry.measures import Measures, of_fleet, row
from controlplane.telemetry.minute_collector import MINUTE_S
from controlplane.telemetry.minute_history import MinuteHistory
from routing.contract.ended_requests import EndedRequests
from tests.controlplane.conftest import Api
from tests.controlplane.telemetry.reports import sketch_of

pytestmark = pytest.mark.django_db

SLOT_S = 300


def minute(latency_s: float) -> Measures:
    found = Measures(requests=60, ended=EndedRequests(served=60))
    found.sketch("latency", sketch_of([latency_s] * 60))
    return found


def fill(redis: Any, begin: float, minutes: int, latency_s: float = 0.1) -> None:
    """A request a second; each fifth minute is twenty times as slow."""
    history, pipeline = MinuteHistory(redis), redis.pipeline()
    for at in range(minutes):
        slow = 20 if at % 5 == 0 else 1
        ended = row(minute(latency_s * slow), begin + MINUTE_S * (at + 1), MINUTE_S)
        history.append(pipeline, {of_fleet("llm"): ended})
    pipeline.execute()


@pytest.fixture
def slot() -> float:
    """An hour ago, at a multiple of five minutes."""
    return timezone.now().timestamp() // SLOT_S * SLOT_S - 3600


def test_each_slot_is_kept_once_and_what_was_missed_is_made_up_for(
    llm: str, redis_client: Any, slot: float
) -> None:
    fill(redis_client, slot, 12)
    assert tasks.keep_until(slot + 302) == 0, "its last minute may not be there"
    assert tasks.keep_until(slot + 306) == 1
    assert tasks.keep_until(slot + 306) == 0
    # Beat was stopped meanwhile; the third slot is not over.
    assert tasks.keep_until(slot + 706) == 1
    rows = list(FleetHistory.objects.order_by("at"))
    assert [one.at.timestamp() - slot for one in rows] == [300.0, 600.0]
    assert '"served":300' in rows[0].ended
    Fleet.objects.get(name=llm).delete()
    assert not FleetHistory.objects.exists()


def test_rows_older_than_history_is_kept_go(llm: str, settings: Any) -> None:
    fleet, now = Fleet.objects.get(name=llm), timezone.now()
    for days in (1, 29, 31):
        FleetHistory.objects.create(fleet=fleet, at=now - timedelta(days=days), values="[]")
    settings.HISTORY_DAYS = 30
    forget_old()
    assert FleetHistory.objects.count() == 2


def test_a_long_time_is_read_from_the_database_and_its_end_from_redis(
    api: Api, llm: str, redis_client: Any, slot: float
) -> None:
    fill(redis_client, slot, 20)
    tasks.keep_until(slot + 606)
    FleetHistory.objects.filter(at=datetime.fromtimestamp(slot + 300, UTC)).update(
        at=timezone.now() - timedelta(days=3)
    )
    asked = api.get("/fleets/llm/history?since=7d&metric=rps,p50_s,p99_s,error_reasons").json()
    assert asked["step_s"] == SLOT_S
    assert asked["at"] == [slot + 300, slot + 600, slot + 900, slot + 1200]
    assert asked["values"]["rps"] == [1.0] * 4
    assert asked["values"]["p50_s"] == pytest.approx([0.1] * 4, rel=0.02)
    assert asked["values"]["p99_s"] == pytest.approx([2.0] * 4, rel=0.02)
    assert set(asked["values"]) == {"rps", "p50_s", "p99_s"}
    # Percentiles of an hour are those of its merged sketches.
    hour = api.get("/fleets/llm/history?since=7d&step=3600&metric=p50_s,p95_s").json()["values"]
    assert hour["p50_s"][0] == pytest.approx(0.1, rel=0.02)
    assert hour["p95_s"][0] == pytest.approx(2.0, rel=0.02)


def test_steps_within_a_day_come_from_redis(api: Api, llm: str, redis_client: Any, slot: float) -> None:
    fill(redis_client, slot, 10)
    minutes = api.get("/fleets/llm/history?since=2h&step=60&metric=rps,p99_s").json()
    assert minutes["values"]["rps"] == [1.0] * 10
    assert minutes["values"]["p99_s"][:2] == pytest.approx([2.0, 0.1], rel=0.02)
    fives = api.get("/fleets/llm/history?since=2h&step=300&metric=p99_s").json()
    assert fives["at"] == [slot + 300, slot + 600]
    assert fives["values"]["p99_s"] == pytest.approx([2.0, 2.0], rel=0.02)


def test_without_redis_the_database_answers_for_what_it_has(
    api: Api, llm: str, redis_client: Any, redis_server: Any, slot: float
) -> None:
    fill(redis_client, slot, 20)
    tasks.keep_until(slot + 606)
    redis_server.stop()
    asked = api.get("/fleets/llm/history?since=7d&metric=rps,p99_s")
    assert (asked.status_code, asked.json()["at"]) == (200, [slot + 300, slot + 600])
    FleetHistory.objects.all().delete()
    assert api.get("/fleets/llm/history?since=7d&metric=rps").status_code == 503
