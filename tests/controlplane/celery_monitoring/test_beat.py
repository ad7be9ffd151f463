"""While no worker takes tasks, the queue has a length that it does not exceed."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from controlplane.celery import app
from controlplane.celery_monitoring.beat import InstrumentedScheduler
from controlplane.datastores import task_queue
from controlplane.datastores.task_queue import queue_length
from controlplane.probes import keys, tasks
from controlplane.services import fleets
from tests.conftest import RedisServer
from tests.controlplane.datastores.hangs import hanging
from tests.proxy_process import until

MOST = 5
LOGGER = "controlplane.celery_monitoring.beat"


@pytest.fixture
def scheduler(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InstrumentedScheduler]:
    monkeypatch.setattr(task_queue, "MOST_WAITING", MOST)
    made = InstrumentedScheduler(app=app, schedule_filename=str(tmp_path / "beat"))
    yield made
    made.close()


def send(scheduler: InstrumentedScheduler, times: int = 1) -> None:
    """As often as its loop would, when the tick is due."""
    for _ in range(times):
        scheduler.apply_entry(scheduler.schedule["probe-tick"])


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


@pytest.mark.any_database
def test_ticks_are_left_out_while_too_many_wait(
    scheduler: InstrumentedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        send(scheduler, 3 * MOST)
        assert queue_length() == MOST
        app.control.purge()
        send(scheduler)
    assert queue_length() == 1
    assert told(caplog) == [
        f"{MOST} tasks wait and no worker takes them: further ones are left out",
        "workers take tasks again",
    ]


@pytest.mark.any_database
def test_a_queue_that_hangs_costs_beat_one_time_limit(
    scheduler: InstrumentedScheduler, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    send(scheduler)
    with caplog.at_level(logging.WARNING, LOGGER), hanging(redis_server):
        send(scheduler, 3)
    send(scheduler)
    assert queue_length() == 2
    first, last = told(caplog)
    assert first.startswith("the task queue does not answer, still trying")
    assert last == "the task queue answers again"


@pytest.mark.any_database
def test_a_clock_that_is_set_back_holds_nothing_up(
    scheduler: InstrumentedScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    def sends() -> bool:
        scheduler.tick()
        return queue_length() > 0

    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1)):
        until(sends, "it is an hour later")
        while scheduler.tick() == 0:
            app.control.purge()
    app.control.purge()
    with caplog.at_level(logging.WARNING, LOGGER):
        until(sends, "what is due each second is sent again")
    assert "the clock was set back by 3600 s: the schedule begins anew" in told(caplog)


@pytest.mark.django_db(transaction=True)
def test_a_tick_hands_nothing_out_while_too_many_wait(
    scheduler: InstrumentedScheduler, redis_client: object
) -> None:
    replicas = [{"name": "a", "url": "http://127.0.0.1:9"}]
    fleets.create({"name": "tiny", "protocol": "openai", "replicas": replicas}, "test")
    send(scheduler, 2 * MOST)
    tasks.tick()
    assert queue_length() == MOST
    (uid,) = redis_client.zrange(keys.DUE, 0, -1)  # type: ignore[attr-defined]
    app.control.purge()
    tasks.tick()
    assert queue_length() == 1, "it was still due"
    assert redis_client.zcard(keys.DUE) == 1, uid  # type: ignore[attr-defined]
